"""Tables of runs: what `Sweep` gives to pandas and xarray."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .._extras import Variable, dataframe, dataset
from .._results import RESULTS
from .._types import PyTree
from ..simulations import AbstractStateAxes, StateAxes, Trajectory


if TYPE_CHECKING:
    import pandas
    import xarray


def sweep_dataset(sweep: Any, axes: AbstractStateAxes | None) -> "xarray.Dataset":
    """Outputs along runs and their own axes, with parameters as coordinates."""
    variables, places = _outputs(sweep.outputs, axes)
    runs: dict[str, Any] = {"run": np.arange(len(sweep)), **_parameters(sweep)}
    runs |= {name: (("run",), x) for name, x in _about_runs(sweep).items()}
    found = dataset(variables, places | runs, {})
    found["status"] = ("run",), _code(sweep.status)
    # As the conventions for climate and forecast metadata have it for integer codes.
    outcomes = RESULTS._name_to_item
    found["status"].attrs = {
        "flag_values": np.array([_code(item) for item in outcomes.values()]),
        "flag_meanings": " ".join(outcomes),
    }
    return found


def sweep_dataframe(sweep: Any, axes: AbstractStateAxes | None) -> "pandas.DataFrame":
    """A row for each run: parameters, outputs that are numbers, how it went."""
    variables, _ = _outputs(sweep.outputs, axes)
    columns = _parameters(sweep) | variables
    large = [name for name, (of, _) in columns.items() if len(of) > 1]
    if large:
        raise ValueError(
            f"to_dataframe needs one number a run, got arrays in {large}; to_xarray() "
            "has them, and its own .to_dataframe() a row for each of their numbers"
        )
    about = {name: (("run",), x) for name, x in _about_runs(sweep).items()}
    return dataframe(columns | about, {})


def _about_runs(sweep: Any) -> dict[str, np.ndarray]:
    about = {"successful": sweep.successful}
    if sweep.error_estimate is not None:
        about["error_estimate"] = sweep.error_estimate
    return about


def _parameters(sweep: Any) -> dict[str, Variable]:
    return {
        path: (("run", *(f"{path}_axis_{i}" for i in range(x.ndim - 1))), x)
        for path, x in sweep.parameters.items()
    }


def _outputs(
    outputs: PyTree, axes: AbstractStateAxes | None
) -> tuple[dict[str, Variable], dict[str, Any]]:
    """Variables of all outputs, those of trajectories by their own names."""
    if axes is not None:
        return _along_runs(axes.variables(outputs, 1)), axes.coordinates()
    if isinstance(outputs, Trajectory):
        return _of_trajectory(outputs)
    apart = jax.tree.leaves(outputs, is_leaf=_is_trajectory)
    if any(map(_is_trajectory, apart)):
        raise ValueError(
            "to_xarray makes a dataset of one trajectory a run or of arrays, got "
            f"{len(apart)} outputs with a trajectory among them; make one of each by "
            "dataclasses.replace(sweep, outputs=sweep.outputs[0])"
        )
    named = StateAxes.from_pytree(outputs, alone="output")
    return _along_runs(named.variables(outputs, 1)), {}


def _of_trajectory(
    trajectory: Trajectory,
) -> tuple[dict[str, Variable], dict[str, Any]]:
    """States along runs and times, at places that are the same in all runs."""
    times = np.asarray(trajectory.times)
    time = ("time",)[: times.ndim - 1]
    axes, places = trajectory.axes, {}
    if axes is None:
        axes = StateAxes.from_pytree(trajectory.states)
    elif _are_same(axes):
        axes = jax.tree.map(lambda x: x[0], axes)
        places = axes.coordinates()
    variables = axes.variables(trajectory.states, 1 + len(time))
    found = {name: (("run", *time, *of), x) for name, (of, x) in variables.items()}
    if _are_same(times):
        places["time"] = times[0]
    else:
        found["times"] = ("run", *time), times
    return found, places


def _along_runs(variables: dict[str, Variable]) -> dict[str, Variable]:
    return {name: (("run", *of), x) for name, (of, x) in variables.items()}


def _is_trajectory(x: Any) -> bool:
    return isinstance(x, Trajectory)


def _are_same(tree: PyTree) -> bool:
    """Whether all runs have the same numbers."""
    leaves = map(np.asarray, filter(eqx.is_array_like, jax.tree.leaves(tree)))
    return all(np.all(x == x[:1]) for x in leaves)


def _code(outcome: Any) -> np.ndarray:
    return np.asarray(*jax.tree.leaves(outcome))
