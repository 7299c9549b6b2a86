"""Contents of a store: under which names the numbers of outcomes are written.

A store is read without diffsim, by `xarray.open_zarr`, so it holds the variables that
`Sweep.to_xarray` makes: positions and velocities, or a variable a field. What is none
of them, as counts of steps, is there under its path. What a trajectory has beside its
states and is the same in all runs, as times are, is kept once, as a coordinate.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from .._extras import check_names
from .._jaxpr._batch_axis import answer_of_all
from .._jaxpr._inspection import reach
from .._jit._fresh_jit import fresh_jit
from .._paths import joined, step_to
from .._types import PyTree
from ..simulations import Trajectory
from ._batching import Task
from ._store_manifest import FOLDER
from ._sweep_plan import Plan
from ._sweep_result import RunOutcome
from ._sweep_tables import Tabled, sweep_dataset
from ._swept_parameters import Rows


#: How a run went, and the value where it was not run.
STATUS, NOT_RUN = "status", -1
#: Fields of trajectories that `Sweep.to_xarray` makes coordinates of.
_PLACES = "times", "axes"
#: Bytes in the name of a folder, on all common file systems.
_LONGEST = 255


def stored_name(name: str) -> str:
    """A name as it is in a store, in which "/" is a folder and " " ends a name.

    Those that a store has for itself, and those of no folder, end in "_".
    """
    name = "_".join(name.replace(", ", ",").replace("/", "_").split())
    if len(name.encode()) > _LONGEST:
        raise ValueError(
            f"a store has a folder for each parameter and output, with a name of at "
            f"most {_LONGEST} bytes, got {name!r:.60}; give it a shorter name"
        )
    return f"{name}_" if name in ("", ".", "..", FOLDER, "zarr.json") else name


class StoredVariable(NamedTuple):
    """One array of a store, without the axis of runs.

    - `leaf`: which array of the outcomes its numbers are of.
    - `entries`: where in it; None if it is all of them, in order.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    leaf: int
    entries: np.ndarray | None


@dataclasses.dataclass
class StoreContents:
    """Arrays written of each run, and outcomes put together from them.

    - `constants`: arrays of the outcomes that are the same in all runs.
    - `coordinates`: an `xarray.Dataset` of the coordinates of other axes than `run`.
    """

    shapes: RunOutcome
    variables: list[StoredVariable]
    constants: dict[int, np.ndarray]
    coordinates: Any

    def dtype(self, variable: StoredVariable) -> np.dtype:
        """The type of its numbers."""
        return jax.tree.leaves(self.shapes)[variable.leaf].dtype

    def written(self, found: RunOutcome) -> dict[str, np.ndarray]:
        """Arrays by name, of the outcomes of some runs."""
        leaves, arrays = jax.tree.leaves(found), {}
        for variable in self.variables:
            x = leaves[variable.leaf]
            if variable.entries is not None:
                x = x.reshape(len(x), math.prod(x.shape[1:]))[:, variable.entries]
            arrays[variable.name] = x.reshape(len(x), *variable.shape)
        return arrays

    def outcome(self, read: Callable[[str], np.ndarray], runs: int) -> RunOutcome:
        """The outcomes, from a function that reads an array by its name."""
        return RunOutcome(*(self.part(x, read, runs) for x in RunOutcome._fields))

    def part(self, part: str, read: Callable[[str], np.ndarray], runs: int) -> PyTree:
        """As `outcome`, one field of it."""
        leaves, structure = jax.tree.flatten(self.shapes)
        places = jax.tree.unflatten(structure, range(len(leaves)))

        def array(leaf: int) -> np.ndarray:
            like = leaves[leaf]
            if leaf in self.constants:
                return np.broadcast_to(self.constants[leaf], (runs, *like.shape))
            values = np.empty((runs, *like.shape), like.dtype)
            self._fill(leaf, values.reshape(runs, math.prod(like.shape)), read)
            return values

        return jax.tree.map(array, getattr(places, part))

    def _fill(self, leaf: int, values: np.ndarray, read: Callable):
        for variable in self.variables:
            if variable.leaf == leaf:
                here = slice(None) if variable.entries is None else variable.entries
                read_ = read(variable.name)
                values[:, here] = read_.reshape(len(values), math.prod(variable.shape))


def contents_of(plan: Plan, parameters: dict[str, np.ndarray]) -> StoreContents:
    """Find out which arrays a store of these runs holds, without running one.

    Numbers of outcomes are replaced by labels, and the labels looked for in a dataset.
    """
    leaves, structure = jax.tree.flatten(plan.shapes)
    constants = _constants(plan)
    sizes = [math.prod(x.shape) for x in leaves]
    starts = np.cumsum([0, *sizes]).tolist()
    labels = [
        _labels(constants.get(i), starts[i], starts[-1], x.shape)
        for i, x in enumerate(leaves)
    ]
    two = {path: np.resize(x, (2, *x.shape[1:])) for path, x in parameters.items()}
    labeled = Tabled(two, jax.tree.unflatten(structure, labels), plan.differentiated)
    dataset = sweep_dataset(labeled, None)
    names = {str(x): stored_name(str(x)) for x in {*dataset.variables, *dataset.dims}}
    check_names(names.values(), "a store, where spaces and slashes are '_',")
    dataset = dataset.rename({old: new for old, new in names.items() if old != new})
    variables, swept = [], {"run", *(names[path] for path in parameters)}
    for name, x in dataset.variables.items():
        if "run" in x.dims and name not in swept:
            variables += _found(str(name), x, starts)
    along_runs = [name for name, x in dataset.variables.items() if "run" in x.dims]
    coordinates = dataset.drop_vars(along_runs)
    for leaf, name in _left_over(variables, plan.shapes, set(dataset.variables)):
        shape = leaves[leaf].shape
        dims = tuple(f"{name}_axis_{i}" for i in range(len(shape)))
        if leaf not in constants:
            variables.append(StoredVariable(name, dims, shape, leaf, None))
        elif name.partition(".")[0] not in _PLACES:
            coordinates[name] = dims, constants[leaf]
    return StoreContents(plan.shapes, variables, constants, coordinates)


def _constants(plan: Plan) -> dict[int, np.ndarray]:
    """Fields of a trajectory, beside its states, that no swept number reaches."""
    if not isinstance(plan.shapes.outputs, Trajectory):
        return {}
    closed, row = plan.jaxpr, jax.tree.leaves(plan.row)
    inputs = len(closed.jaxpr.invars)
    known = [False] * (inputs - len(row)) + [True] * len(row)
    wide, paths = reach(closed, known, answer_of_all), _paths(plan.shapes)
    same = tuple(
        i
        for i, (part, *path) in enumerate(paths)
        if part.name == "outputs" and path[0].name != "states" and not wide[i]
    )
    if not same:
        return {}
    values = jax.device_get(_chosen_outcomes(plan.task, plan.row, same))
    return dict(zip(same, map(np.asarray, values), strict=True))


@fresh_jit
def _chosen_outcomes(task: Task, row: Rows, leaves: tuple[int, ...]) -> list[Array]:
    """Some arrays of the outcomes of one run, compiled without all others."""
    found = jax.tree.leaves(task(row))
    return [found[i] for i in leaves]


def _paths(shapes: RunOutcome) -> list[tuple[Any, ...]]:
    """Of all arrays of the outcomes."""
    return [path for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]]


def _labels(
    constant: np.ndarray | None, start: int, total: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Of two runs: a constant as it is, else another number for every entry."""
    if constant is not None:
        return np.broadcast_to(constant, (2, *shape))
    one = start + np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return np.stack([one, one + total])


def _found(name: str, x: Any, starts: list[int]) -> list[StoredVariable]:
    """The variable, if its numbers are those of one array of the outcomes."""
    values = np.asarray(x.values)
    if values.dtype != np.int64 or x.dims[0] != "run" or not values[0].size:
        return []
    entries, total = values[0].reshape(-1), starts[-1]
    leaf = int(np.searchsorted(starts, entries[0], "right")) - 1
    first, end = starts[leaf], starts[leaf + 1]
    if not np.all((first <= entries) & (entries < end)):
        return []
    if not np.array_equal(values[1], values[0] + total):
        return []
    entries, all_ = entries - first, np.arange(end - first)
    where = None if np.array_equal(entries, all_) else entries
    shape = values.shape[1:]
    return [StoredVariable(name, x.dims[1:], shape, leaf, where)]


def _left_over(
    variables: list[StoredVariable], shapes: RunOutcome, taken: set[Any]
) -> Iterator[tuple[int, str]]:
    """Arrays of which numbers are in no variable, and names for them: their paths."""
    leaves = jax.tree.leaves(shapes)
    for leaf, ((part, *keys), x) in enumerate(zip(_paths(shapes), leaves, strict=True)):
        seen = np.zeros(math.prod(x.shape), bool)
        for variable in variables:
            if variable.leaf == leaf:
                seen[slice(None) if variable.entries is None else variable.entries] = 1
        if seen.all():
            continue
        name = stored_name(joined([step_to(key) for key in keys]) or part.name)
        while name in taken:
            name += "_"
        taken.add(name)
        yield leaf, name
