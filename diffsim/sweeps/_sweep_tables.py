"""Tables of runs: what `Sweep` gives to pandas and xarray."""

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._extras import Variable, check_names, dataframe, dataset
from .._results import RESULTS
from .._types import PyTree
from ..simulations import AbstractStateAxes, StateAxes, Trajectory
from ._run_derivative import Differentiated
from ._sweep_result import RunOutcome, numbers_in


if TYPE_CHECKING:
    import pandas
    import xarray


class Tabled(NamedTuple):
    """All that is known of some runs, and tables are made of."""

    parameters: dict[str, np.ndarray]
    outcome: RunOutcome
    differentiated: Differentiated | None
    runs: np.ndarray | None = None
    """their numbers, if these are not 0, 1, ..."""


def sweep_dataset(of: Tabled, axes: AbstractStateAxes | None) -> "xarray.Dataset":
    """Outputs along runs and their own axes, with parameters as coordinates."""
    outputs, places = _outputs(of.outcome.outputs, axes)
    derivatives, along = {}, {}
    if of.differentiated is not None:
        derivatives = _derivatives(of, of.differentiated.kind, axes)
        names = list(of.differentiated.selection.names)
        along = {"parameter": names}
        if of.differentiated.kind == "fisher":
            along["parameter_2"] = names
    status = _code(of.outcome.status)
    runs = {"run": np.arange(len(status)) if of.runs is None else of.runs}
    table = dataset(
        _merged(outputs, derivatives, {"status": (("run",), status)}),
        _merged(places, along, runs, _parameters(of), _about_runs(of)),
        {},
    )
    table["status"].attrs |= status_attributes()
    return table


def status_attributes() -> dict[str, Any]:
    """Codes and names, as the conventions for climate and forecast metadata have it."""
    outcomes = RESULTS._name_to_item
    return {
        "flag_values": np.array([_code(item) for item in outcomes.values()]),
        "flag_meanings": " ".join(outcomes),
    }


def sweep_dataframe(of: Tabled, axes: AbstractStateAxes | None) -> "pandas.DataFrame":
    """A row for each run: parameters, outputs that are numbers, how it went."""
    variables, _ = _outputs(of.outcome.outputs, axes)
    columns, slopes = _merged(_parameters(of), variables), {}
    large = [name for name, (dims, _) in columns.items() if len(dims) > 1]
    if large:
        raise ValueError(
            f"to_dataframe needs one number a run, got arrays in {large}; to_xarray() "
            "has them, and its own .to_dataframe() a row for each of their numbers"
        )
    if of.differentiated is not None and of.differentiated.kind == "gradient":
        names = of.differentiated.selection.names
        values = np.moveaxis(jax.tree.leaves(of.outcome.derivative)[0], -1, 0)
        slopes = {
            f"gradient[{name}]": (("run",), slope)
            for name, slope in zip(names, values, strict=True)
        }
    return dataframe(_merged(columns, slopes, _about_runs(of)), {})


def sbi_arrays(of: Tabled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters and outputs of runs as rows of numbers, and which are of use."""
    numbers = jax.tree.leaves(numbers_in(of.outcome.outputs))
    if any(np.iscomplexobj(x) for x in numbers):
        raise ValueError(
            "to_sbi needs real outputs, got complex ones; return their real and "
            "imaginary parts from predict"
        )
    # Words of PRNG keys are no numbers that anything follows from.
    of_keys = [x.dtype == np.uint32 and x.ndim > 1 for x in of.parameters.values()]
    swept = [
        x for x, key in zip(of.parameters.values(), of_keys, strict=True) if not key
    ]
    runs = len(next(iter(of.parameters.values())))
    with np.errstate(over="ignore"):
        theta, x = (
            np.concatenate(
                [np.empty((runs, 0)), *(np.reshape(x, (len(x), -1)) for x in arrays)],
                axis=1,
            ).astype(np.float32)
            for arrays in (swept, numbers)
        )
    mask = _code(of.outcome.status) == _code(RESULTS.successful)
    for rows in (theta, x):
        mask &= np.all(np.isfinite(rows), axis=1)
    return theta, x, mask


def _about_runs(of: Tabled) -> dict[str, Variable]:
    status = _code(of.outcome.status)
    columns = {"successful": (("run",), status == _code(RESULTS.successful))}
    if of.outcome.error is not None:
        columns["error_estimate"] = ("run",), of.outcome.error
    return columns


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    check_names(itertools.chain(*parts))
    return {name: x for part in parts for name, x in part.items()}


def _derivatives(
    of: Tabled, kind: str, axes: AbstractStateAxes | None
) -> dict[str, Variable]:
    """By the names of the outputs, along `parameter`."""
    derivative = of.outcome.derivative
    if kind == "fisher":
        return {"fisher": (("run", "parameter", "parameter_2"), derivative)}
    if kind == "gradient":
        (values,) = jax.tree.leaves(derivative)
        return {"gradient": (("run", "parameter"), values)}
    in_front = jax.tree.map(lambda x: np.moveaxis(np.asarray(x), -1, 1), derivative)
    variables, _ = _named(of.outcome.outputs, in_front, axes, ("run", "parameter"))
    return {f"jacobian_{name}": variable for name, variable in variables.items()}


def _parameters(of: Tabled) -> dict[str, Variable]:
    return {
        path: (("run", *(f"{path}_axis_{i}" for i in range(x.ndim - 1))), x)
        for path, x in of.parameters.items()
    }


def _outputs(
    outputs: PyTree, axes: AbstractStateAxes | None
) -> tuple[dict[str, Variable], dict[str, Any]]:
    """Variables of all outputs, of a trajectory its states, and where they lie."""
    if not isinstance(outputs, Trajectory):
        apart = jax.tree.leaves(outputs, is_leaf=_is_trajectory)
        if axes is None and any(map(_is_trajectory, apart)):
            raise ValueError(
                "to_xarray makes a dataset of one trajectory a run or of arrays, got "
                f"{len(apart)} outputs with a trajectory among them; return the "
                "trajectory alone, or its states"
            )
        return _named(outputs, outputs, axes, ("run",))
    variables, places = _named(outputs, outputs.states, axes, ("run",))
    times = np.asarray(outputs.times)
    if _are_same(times):
        return variables, _merged(places, {"time": times[0]})
    along = ("run", "time")[: times.ndim]
    return _merged(variables, {"times": (along, times)}), places


def _named(
    outputs: PyTree,
    numbers: PyTree,
    axes: AbstractStateAxes | None,
    leading: tuple[str, ...],
) -> tuple[dict[str, Variable], dict[str, Any]]:
    """`numbers` of the outputs by name, and places that are the same in all runs."""
    alone, places, are_same = "output", {}, True
    if isinstance(outputs, Trajectory):
        alone, leading = "state", leading + ("time",)[: np.ndim(outputs.times) - 1]
        if axes is None and outputs.axes is not None:
            axes = jax.tree.map(lambda x: x[0], outputs.axes)
            are_same = _are_same(outputs.axes)
    if axes is not None and are_same:
        places = axes.coordinates()
    axes = axes or StateAxes.from_pytree(numbers, alone)
    variables = axes.variables(numbers, len(leading))
    return {name: (leading + of, x) for name, (of, x) in variables.items()}, places


def _is_trajectory(x: Any) -> bool:
    return isinstance(x, Trajectory)


def _are_same(tree: PyTree) -> bool:
    """Whether all runs have the same numbers."""
    leaves = map(np.asarray, filter(eqx.is_array_like, jax.tree.leaves(tree)))
    return all(np.all(x == x[:1]) for x in leaves)


def _code(outcome: Any) -> np.ndarray:
    return np.asarray(*jax.tree.leaves(outcome))
