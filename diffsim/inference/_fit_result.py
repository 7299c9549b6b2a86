"""`Fit`: best values, error bars and how they were found."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._extras import pictures
from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS
from .._text_table import html_representation, text_representation
from .._types import PyTree
from .._validation import is_traced
from ..simulations import load, save
from ._contour import Contour, contour
from ._fisher_information import Fisher
from ._fitted_data import FittedData, fitted_data
from ._information import observed_information
from ._information_factor import (
    correlation,
    covariance,
    estimated_sigma,
    standard_deviations,
    unit_covariance,
)
from ._levenberg_marquardt import NEAR_ENOUGH
from ._optimum import SearchResult
from ._parameters import Coordinates, Parameters
from ._posterior import FitStatistics, Posterior, likelihoods_of
from ._profile import Profile, profile
from ._propagate import Propagated, propagate
from ._remembered import recall
from ._report import flags_of, report
from ._result_tables import fit_dataframe, fit_dataset, fit_dict
from ._trust_region import newton_length, triangular_root


if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import xarray


class Fit(eqx.Module):
    """The outcome of `fit`; `print(fit)` is the report.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)
    scatter = 0.05 * jax.random.normal(jax.random.key(0), t.shape)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    data = decay({"height": 2.0, "rate": 0.7}) + scatter
    start, noise = {"height": 1.0, "rate": 1.0}, inference.Gaussian(0.05)
    fit = ds.fit(decay, start, data, noise=noise)  # an inference.Fit
    fit.model["rate"], fit.stderr, fit.chi2 / fit.dof
    ```

    **Fields**, vectors in the order of `names`

    - `model`: the model with the best values; `values`, `start`, `lower`, `upper`,
        `at_bound`: the free parameters, where they started, their bounds, and which
        ended at one.
    - `stderr`, `covariance`, `correlation`: standard deviations; inf for what the data
        leave open, NaN at a bound, where the others' hold with it fixed.
    - `undetermined`: which ones the data leave open: their error bar is infinite, or it
        reaches over a plateau where the loss no longer rises.
    - `fisher`: the information behind them (no bound taken into account), a
        `Fisher`; None with `FitOptions(covariance=False)`.
    - `chi2`: of the data, without priors; the residual sum of squares if sigma is
        unknown. `size`: number of data. `dof`: data minus the k parameters fitted:
        those in `names`, of the noise as well, less those at a bound.
    - `loss`: minus the log posterior up to a constant, at `values`.
    - `sigma_scale`: √(RSS/dof) where sigma was unknown (NaN if no datum is left to tell
        it), else 1. `convention` says it.
    - `aic`, `bic`: −2 ln L + 2k and −2 ln L + k ln N from the full likelihood, with
        the k of `dof`. The sigma of `Gaussian()` is none of them, as in NIST and lmfit:
        compare fits of one kind of noise.
    - `log_prob`: ln L of the data at `values`, with all constants.
    - `judges_misfit`: whether the reduced χ² of a good fit is near 1.
    - `status`: a `RESULTS`; `RESULTS[fit.status]` is empty or says what to try.
    - `remaining_sigma`: how far a further Gauss-Newton step would move, in units of
        `stderr` along its direction, so that no value moves by more of its own.
    - `solver_error`: how far finer steps of the simulations inside `predict` (half the
        step, a tenth of the tolerances) would move each best value, in units of its
        standard deviation; NaN where there are none.
    - `steps`, `rejected`, `non_finite`: numbers of trial steps.
    - `history`: arrays over steps, `loss`, `remaining_sigma`, `seconds`; after many
        starts `starts_loss`, `starts_values`, `starts_converged`, best first.
    """

    model: PyTree
    values: Float[Array, " parameter"]
    stderr: Float[Array, " parameter"]
    covariance: Float[Array, "parameter parameter"]
    correlation: Float[Array, "parameter parameter"]
    fisher: Fisher | None
    start: Float[Array, " parameter"]
    lower: Float[Array, " parameter"]
    upper: Float[Array, " parameter"]
    at_bound: Bool[Array, " parameter"]
    undetermined: Bool[Array, " parameter"]
    chi2: Float[Array, ""]
    dof: Int[Array, ""]
    size: Int[Array, ""]
    loss: Float[Array, ""]
    sigma_scale: Float[Array, ""]
    log_prob: Float[Array, ""]
    aic: Float[Array, ""]
    bic: Float[Array, ""]
    status: RESULTS
    remaining_sigma: Float[Array, ""]
    solver_error: Float[Array, " parameter"]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    non_finite: Int[Array, ""]
    history: dict[str, Any]
    names: tuple[str, ...] = eqx.field(static=True)
    convention: str = eqx.field(static=True)
    judges_misfit: bool = eqx.field(static=True)

    @property
    def chi2_reduced(self) -> Float[Array, ""]:
        """χ² per degree of freedom; near 1 in a good fit only by a sigma that is given.

        A sigma that is fitted or judged from the residuals makes it 1, or its square.
        """
        return self.chi2 / self.dof

    @property
    def flags(self) -> dict[str, str]:
        """Warnings about the error bars, a clause by keyword; often empty.

        `"undetermined"`: the data do not determine these; `"solver_error"`: the
        simulation's own error takes more than 0.3 of an error bar; `"at_bound"`;
        `"misfit"`: the reduced chi2 by a given sigma is not near 1.

        **Raises:** `ValueError` for a fit that is traced, or one of a batch of fits.
        """
        if is_traced(self.chi2) or self.chi2.ndim:
            raise ValueError(
                "flags are those of one fit outside jit, vmap and grad; take the "
                "arrays (.status, .undetermined, .solver_error) inside, and one of a "
                "batch by jax.tree.map(lambda x: x[0], fits)"
            )
        return flags_of(self)

    def observed(self) -> Fisher:
        """The observed information at the best fit: the full second derivative.

        Its `stderr` differ from those of the fit where residuals are large and the
        prediction is not linear within its error bars.
        """
        experiment = recall(self, "observed")
        information, _ = observed_information(experiment, self.values)
        return information

    def profile(self, name: str, level: float = 1.0) -> Profile:
        """The profile likelihood of a parameter: an asymmetric interval of n sigma.

        All others are fitted anew along it. Nothing is compiled that the fit has not
        compiled; about ten short fits.
        """
        return profile(self, recall(self, "profile"), name, level)

    def contour(
        self, a: str, b: str, probability: float = 0.6827, points: int = 40
    ) -> Contour:
        """The contour of two parameters that holds so much of the probability."""
        experiment = recall(self, "contour")
        return contour(self, experiment, (a, b), probability, points)

    def fitted_data(self) -> tuple[FittedData, ...]:
        """Data beside what the best fit expects of them, one for each data set."""
        return fitted_data(recall(self, "fitted_data"), self.values)

    def propagate(self, function: Callable[[PyTree], PyTree]) -> Propagated:
        """What the fit says of a function of the model, to first order.

        `fit.propagate(lambda m: jnp.hypot(m["h"], m["k"]))` has the eccentricity with
        its error bar.
        """
        return propagate(self, recall(self, "propagate"), function)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists of Python, for JSON."""
        return fit_dict(self)

    def save(self, path: Any):
        """Write the fit to a file, which `Fit.load` reads."""
        save(path, {"fit": self})

    @staticmethod
    def load(path: Any) -> "Fit":
        """Read a fit; `profile` and the like need the one that `ds.fit` returned."""
        found = load(path)
        if not isinstance(found, dict) or not isinstance(found.get("fit"), Fit):
            raise ValueError(f"{str(path)!r} holds no fit that Fit.save has written")
        return found["fit"]

    def plot(self, x: Any = None, *, ax: Any = None) -> "matplotlib.axes.Axes":
        """Draw data, the best fit and the residuals below.

        **Arguments:** `x`, where the data lie, as times; None numbers them.
        """
        return pictures().fit(self, x, ax=ax)

    def corner(self, **options: Any) -> Any:
        """Draw error bars and correlations, as `plots.corner(fit)`."""
        return pictures().corner(self, **options)

    def to_dataframe(self) -> "pandas.DataFrame":
        """The parameters as a `pandas.DataFrame`, a row for each.

        Columns are `value`, `stderr`, `start`, `lower`, `upper`, `at_bound`,
        `undetermined` and `solver_error`.
        """
        return fit_dataframe(self)

    def to_xarray(self) -> "xarray.Dataset":
        """The same as an `xarray.Dataset`, with covariance and correlation.

        Along `parameter` and `other_parameter`; χ² and the like are attributes.
        """
        return fit_dataset(self)

    def __repr__(self) -> str:
        return text_representation(self, report)

    def _repr_html_(self) -> str:
        return html_representation(self, report)


def fit_result(
    experiment: Posterior,
    z: Array,
    search: SearchResult,
    state: Any,
    facts: FitStatistics,
    history: Any,
) -> Fit:
    """The `Fit` at the coordinates `z`; `state`, if any, has the Jacobian there."""
    parameters, unknown = experiment.parameters, experiment.scale_is_unknown
    numbers, root = _numbers(
        parameters.coordinates, z, search.result, state, facts, unknown
    )
    fisher = None
    if root is not None:
        good, names = RESULTS.successful, parameters.names
        fisher = Fisher(*root, None, good, names, experiment.curvature)
    return Fit(
        **numbers,
        model=_model(parameters, numbers["values"]),
        fisher=fisher,
        start=parameters.start,
        lower=parameters.lower,
        upper=parameters.upper,
        chi2=facts.chi2,
        size=facts.size,
        log_prob=facts.log_prob,
        loss=search.loss,
        steps=search.steps,
        rejected=search.rejected,
        non_finite=search.non_finite,
        history=history,
        names=parameters.names,
        convention=_convention(experiment),
        judges_misfit=_judges_misfit(experiment),
    )


@fresh_jit
def _model(parameters: Parameters, values: Array) -> PyTree:
    return parameters.model(values)


# Compiled without names and `predict`, so that fits of one size share it.
@fresh_jit
def _numbers(
    coordinates: Coordinates,
    z: Array,
    searched: RESULTS,
    state: Any,
    facts: FitStatistics,
    unknown: bool,
) -> tuple[dict[str, Any], tuple[Array, Array] | None]:
    """The numbers of a `Fit`, and root and scale of its information."""
    n = z.size
    values = coordinates.values(z)
    held = jnp.zeros(n, bool) if state is None else state.held
    dof = facts.size - n + jnp.sum(held)
    sigma = estimated_sigma(facts.chi2, dof) if unknown else jnp.ones((), z.dtype)
    root, unit, scale = None, jnp.full((n, n), jnp.nan, z.dtype), jnp.ones(n, z.dtype)
    if state is not None:
        root = _root(coordinates, z, state, sigma)
        unit, scale = _conditional_covariance(root[0], held), root[1]
    stderr = standard_deviations(unit, scale)
    aic, bic = _criteria(facts, facts.size - dof, unknown)
    return {
        "values": values,
        "stderr": stderr,
        "covariance": covariance(unit, scale),
        "correlation": correlation(unit),
        "at_bound": held,
        "undetermined": jnp.isinf(stderr),
        "dof": dof,
        "sigma_scale": sigma,
        "aic": aic,
        "bic": bic,
        "remaining_sigma": _remaining_sigma(state, sigma),
        "status": _status(searched, facts, state),
        "solver_error": jnp.full(n, jnp.nan, z.dtype),
    }, root


def _remaining_sigma(state: Any, sigma: Array) -> Array:
    """In units of the error bars; the solver stops by the scatter of its own rows."""
    if state is None:
        return jnp.full_like(sigma, jnp.nan)
    length = newton_length(state.root, state.held)
    return jnp.where(length == 0, 0, length / sigma)


def _root(
    coordinates: Coordinates, z: Array, state: Any, sigma: Array
) -> tuple[Array, Array]:
    """Of the physical values, from the root that the solver has for coordinates."""
    slope = jax.jvp(coordinates.values, (z,), (jnp.ones_like(z),))[1]
    root = state.root[: z.size, : z.size] * jnp.sign(slope)
    # The solver scales by the largest columns it has met; here columns have unit norm.
    norms = jnp.linalg.norm(root, axis=0)
    norms = jnp.where(norms > 0, norms, 1)
    return root / norms, norms * state.scale / jnp.abs(slope) / sigma


def _conditional_covariance(root: Array, held: Array) -> Array:
    """Unit covariance with what a bound holds fixed, and NaN for its own error bar."""
    rows = [jnp.where(held, 0, root), jnp.diag(held.astype(root.dtype))]
    matrix = unit_covariance(triangular_root(jnp.concatenate(rows)))
    return jnp.where(held[:, None] | held[None, :], jnp.nan, matrix)


def _criteria(facts: FitStatistics, k: Array, unknown: bool) -> tuple[Array, Array]:
    """Akaike's and Bayes's criteria, −2 ln L + 2k and −2 ln L + k ln N."""
    size = facts.size
    deviance = -2 * facts.log_prob
    if unknown:  # with the most likely factor to all sigma, the root of chi2/N
        deviance += size * (jnp.log(facts.chi2 / size) + 1) - facts.chi2
    return deviance + 2 * k, deviance + k * jnp.log(size)


def _status(searched: RESULTS, facts: FitStatistics, state: Any) -> RESULTS:
    """The search's; where the prediction failed, what the simulation says of it."""
    ran = facts.result == RESULTS.successful
    blind = searched == RESULTS.prediction_not_finite
    keep = jnp.asarray(ran) | ~jnp.asarray(blind)
    result = RESULTS.where(keep, searched, facts.result)
    if state is None:
        return result
    # Small updates are no optimum: what a schedule or a line search makes them is.
    short = (result == RESULTS.successful) & ~(state.newton <= NEAR_ENOUGH)
    return RESULTS.where(short, RESULTS.stopped_short, result)


def _judges_misfit(experiment: Posterior) -> bool:
    """Whether χ² says how well the model describes the data."""
    likelihoods = likelihoods_of(experiment).likelihoods
    known = not experiment.varies and not experiment.scale_is_unknown
    return known and all(one.judges_misfit for one in likelihoods)


def _convention(experiment: Posterior) -> str:
    if experiment.varies:
        return "sigma from the noise model and its parameters: error bars not rescaled"
    clauses = [one.convention for one in likelihoods_of(experiment).likelihoods]
    return "; ".join(dict.fromkeys(clauses))
