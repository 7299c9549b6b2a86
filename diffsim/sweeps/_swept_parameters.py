"""Swept parameters: paths and values, as one table with a row per run."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._jit._placeholders import flatten_as_written
from .._parameter_selection import (
    LeafSelection,
    Selection,
    select,
    with_selected_values,
)
from .._types import PyTree
from .._validation import as_jax_takes, check_unitless, is_traced


class Rows(NamedTuple):
    """Numbers of runs, or of one: `floats`, and `integers` where any are swept."""

    floats: Float[Array | np.ndarray, "*run float"]
    integers: Int[Array | np.ndarray, "*run integer"] | None

    def take(self, runs: Any) -> "Rows":
        """Some of the runs."""
        return jax.tree.map(lambda x: x[runs], self)

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.floats)


@dataclasses.dataclass(frozen=True)
class RowSelection:
    """Where the numbers of a row go; static and hashable.

    Of PRNG keys the words of their data are the numbers.
    """

    floats: Selection
    integers: Selection
    keys: tuple[tuple[int, Any], ...]
    """leaves that are PRNG keys, and their algorithms"""

    def put(self, model: PyTree, row: Rows) -> PyTree:
        """`model` with the numbers of one run in place."""
        model = _without_keys(model, self.keys)
        model = with_selected_values(model, self.floats, jnp.asarray(row.floats))
        if row.integers is not None:
            words = jnp.asarray(row.integers)
            model = with_selected_values(model, self.integers, words)
        leaves, unflatten = flatten_as_written(model)
        for leaf, algorithm in self.keys:
            leaves[leaf] = jax.random.wrap_key_data(leaves[leaf], impl=algorithm)
        return unflatten(leaves)


class SweptParameters(NamedTuple):
    """The runs: `parameters` as they were given, and `table`, one row of numbers a run.

    The numbers are those of `selection`, in its order.
    """

    parameters: dict[str, np.ndarray]
    selection: RowSelection
    table: Rows


def swept_parameters(model: PyTree, over: Any) -> SweptParameters:
    """Checks `over` against `model`; a sentence for everything that does not fit."""
    if not isinstance(over, Mapping) or not over:
        raise ValueError(
            "over must map paths to arrays of values, "
            "{'bodies.masses[5]': masses} say; got "
            f"{over if isinstance(over, Mapping) else type(over).__name__}"
        )
    # Inside jit whatever JAX makes is traced.
    if any(map(is_traced, jax.tree.leaves((model, dict(over), jnp.zeros(()) + 0.0)))):
        raise ValueError(
            "sweep runs chunk after chunk from Python and cannot be compiled; inside "
            "jit, vmap or grad use jax.vmap of predict"
        )
    keys = tuple(
        (i, jax.random.key_impl(leaf))
        for i, leaf in enumerate(jax.tree.leaves(model))
        if is_key(leaf)
    )
    plain = _without_keys(model, keys)
    chosen = select(plain, tuple(over), argument="over", integers=True)
    parameters = {path: _real(path, values) for path, values in over.items()}
    runs = {path: len(values) for path, values in parameters.items()}
    if len(set(runs.values())) > 1:
        raise ValueError(
            f"over must give every path the same number of runs, got {runs}; "
            "sweeps.grid makes all combinations"
        )
    leaves, swept = jax.tree.leaves(plain), {part.leaf for part in chosen.parts}
    dtypes = {leaf: jnp.asarray(leaves[leaf]).dtype for leaf in swept}
    whole = {part for part in chosen.parts if dtypes[part.leaf].kind in "iu"}
    floats, integers = _apart(chosen, whole)
    selection = RowSelection(
        floats, integers, tuple(key for key in keys if key[0] in swept)
    )
    return SweptParameters(parameters, selection, _table(parameters, selection, dtypes))


def _table(
    parameters: dict[str, np.ndarray],
    selection: RowSelection,
    dtypes: dict[int, np.dtype],
) -> Rows:
    """All values, as rows of numbers in the order of `selection`."""
    floats, integers = selection.floats.parts, selection.integers.parts
    runs = len(next(iter(parameters.values())))
    real = [np.empty((runs, 0))]
    for path in dict.fromkeys(part.path for part in floats):
        rows = _rows(path, parameters[path], floats).astype(np.float64)
        kinds = {dtypes[part.leaf] for part in floats if part.path == path}
        _check_range(path, rows, min(kinds, key=lambda kind: kind.itemsize))
        real.append(rows)
    dtype = jnp.result_type(*[dtypes[part.leaf] for part in floats] or [float])
    whole = [
        _integers(part.path, parameters[part.path], part, dtypes[part.leaf])
        for part in integers
    ]
    return Rows(
        np.concatenate(real, axis=1).astype(dtype),
        np.concatenate(whole, axis=1) if whole else None,
    )


def _apart(chosen: Selection, whole: set[LeafSelection]) -> tuple[Selection, Selection]:
    """The parts of floats and of integers."""
    names, kinds = iter(chosen.names), ([], [])
    for part in chosen.parts:
        own = tuple(next(names) for _ in range(part.size))
        kinds[part in whole].append((part, own))
    floats, integers = (
        Selection(
            tuple(part for part, _ in kind),
            tuple(name for _, own in kind for name in own),
        )
        for kind in kinds
    )
    return floats, integers


def is_key(leaf: Any) -> bool:
    """Whether it is a PRNG key of JAX, or an array of these."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _without_keys(model: PyTree, keys: tuple[tuple[int, Any], ...]) -> PyTree:
    """`model` with the words of its PRNG keys in their place."""
    leaves, unflatten = flatten_as_written(model)
    for leaf, _ in keys:
        leaves[leaf] = jax.random.key_data(leaves[leaf])
    return unflatten(leaves)


def _real(path: str, values: Any) -> np.ndarray:
    check_unitless(f"over[{path!r}]", values)
    if is_key(values):
        values = jax.random.key_data(values)
    array = np.asarray(as_jax_takes(f"over[{path!r}]", values))
    if array.dtype.kind not in "fiu":
        raise ValueError(f"over[{path!r}] must be real numbers, got {array.dtype}")
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(
            f"over[{path!r}] must have a leading run axis with at least one run, got "
            f"shape {array.shape}"
        )
    return array


def _rows(path: str, values: np.ndarray, parts: Sequence[LeafSelection]) -> np.ndarray:
    """Checks the shape below the run axis; of several leaves, numbers in a row."""
    mine = [part for part in parts if part.path == path]
    shape = mine[0].shape if len(mine) == 1 else (sum(part.size for part in mine),)
    if values.shape[1:] != shape:
        raise ValueError(
            f"over[{path!r}] must have shape {('run', *shape)}, got {values.shape}"
        )
    return values.reshape(len(values), -1)


def _check_range(path: str, rows: np.ndarray, dtype: np.dtype):
    """Raise for numbers that are infinite or zero in the type of their leaf."""
    with np.errstate(over="ignore", under="ignore"):
        held = np.abs(rows.astype(dtype))
    lost = np.isfinite(rows) & (np.isinf(held) | ((held == 0) & (rows != 0)))
    if lost.any():
        raise ValueError(
            f"over[{path!r}] has {rows[lost][0]:g}, which is {held[lost][0]:g} in "
            f"{dtype}, the type of that leaf of the model; make the model in float64, "
            "after ds.configure(enable_x64=True), or give other values"
        )


def _integers(
    path: str, values: np.ndarray, part: LeafSelection, dtype: np.dtype
) -> np.ndarray:
    """Rows of a leaf of integers, in the widest type that JAX has here."""
    rows, limits = _rows(path, values, [part]), np.iinfo(dtype)
    with np.errstate(invalid="ignore"):  # of what is not finite
        exact = rows.astype(dtype)
    if np.any(exact != rows) or np.any(rows < limits.min) or np.any(rows > limits.max):
        raise ValueError(
            f"over[{path!r}] must be integers from {limits.min} to {limits.max}, as "
            f"that leaf of the model is {dtype}; got {values.dtype} from "
            f"{values.min()} to {values.max()}"
        )
    # Bits beyond the range come back by the same conversion.
    return exact.astype(jnp.result_type(int))
