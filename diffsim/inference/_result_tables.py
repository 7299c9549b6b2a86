"""Tables of parameters: what `Fit` and `Fisher` give to pandas and xarray."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import Variable, dataframe, dataset
from .._results import result_message
from ._report import check_alone


if TYPE_CHECKING:
    import pandas
    import xarray


#: Fields of a `Fit` with a number for each parameter, beside their values.
_OF_A_FIT = (
    "stderr",
    "start",
    "lower",
    "upper",
    "at_bound",
    "undetermined",
    "solver_error",
)
#: The scalars of a `Fit`.
_ABOUT_A_FIT = (
    "chi2",
    "dof",
    "size",
    "loss",
    "log_prob",
    "sigma_scale",
    "aic",
    "bic",
)


def fit_dict(fit: Any) -> dict[str, Any]:
    """Numbers and lists of Python: each parameter, the statistics, the correlations."""
    columns = {
        name: np.asarray(x).tolist() for name, (_, x) in _fit_columns(fit).items()
    }
    rows = {
        name: {what: column[i] for what, column in columns.items()}
        for i, name in enumerate(fit.names)
    }
    about = {name: np.asarray(getattr(fit, name)).item() for name in _ABOUT_A_FIT}
    return {
        "status": result_message(fit.status) or "converged",
        "parameters": rows,
        **about,
        "convention": fit.convention,
        "covariance": np.asarray(fit.covariance).tolist(),
        "correlation": np.asarray(fit.correlation).tolist(),
    }


def fit_dataframe(fit: Any) -> "pandas.DataFrame":
    """A row for each parameter of a fit."""
    return dataframe(_fit_columns(fit), {"parameter": list(fit.names)})


def fit_dataset(fit: Any) -> "xarray.Dataset":
    """Values, error bars and their covariance, with statistics as attributes."""
    about = {name: np.asarray(getattr(fit, name)).item() for name in _ABOUT_A_FIT}
    about["convention"] = fit.convention
    return _with_matrices(fit, _fit_columns(fit), ("covariance", "correlation"), about)


def fisher_dataframe(fisher: Any) -> "pandas.DataFrame":
    """A row for each parameter of an information matrix."""
    return dataframe(_fisher_columns(fisher), {"parameter": list(fisher.names)})


def fisher_dataset(fisher: Any) -> "xarray.Dataset":
    """Error bars, the information matrix and the covariance."""
    matrices = "matrix", "covariance", "correlation"
    about = {"kind": fisher.kind}
    return _with_matrices(fisher, _fisher_columns(fisher), matrices, about)


def _fit_columns(fit: Any) -> dict[str, Variable]:
    check_alone("fit", fit.chi2.shape)
    others = {name: getattr(fit, name) for name in _OF_A_FIT}
    return {name: _along(x) for name, x in {"value": fit.values, **others}.items()}


def _fisher_columns(fisher: Any) -> dict[str, Variable]:
    check_alone("fisher", fisher.root.shape[:-2])
    columns = {"stderr": fisher.stderr, "solver_error": fisher.solver_error}
    return {name: _along(x) for name, x in columns.items() if x is not None}


def _along(numbers: Any) -> Variable:
    return ("parameter",), numbers


def _with_matrices(
    result: Any,
    columns: dict[str, Variable],
    matrices: tuple[str, ...],
    about: dict[str, Any],
) -> "xarray.Dataset":
    # Xarray has no two axes of one name.
    axes = "parameter", "other_parameter"
    names = list(result.names)
    square = {name: (axes, getattr(result, name)) for name in matrices}
    about = {"status": result_message(result.status), **about}
    return dataset(columns | square, dict.fromkeys(axes, names), about)
