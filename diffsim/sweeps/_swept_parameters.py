"""Swept parameters: paths and values, as one table with a row per run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._parameter_selection import Selection, select
from .._types import PyTree
from .._validation import as_jax_takes, check_unitless, is_traced


class SweptParameters(NamedTuple):
    """The runs: `parameters` as they were given, and `table`, one row of numbers a run.

    The numbers are those of `selection`, in its order.
    """

    parameters: dict[str, np.ndarray]
    selection: Selection
    table: Float[np.ndarray, "run number"]


def swept_parameters(model: PyTree, over: Any) -> SweptParameters:
    """Checks `over` against `model`; a sentence for everything that does not fit."""
    if not isinstance(over, Mapping) or not over:
        raise ValueError(
            "over must map paths to arrays of values, "
            "{'bodies.masses[5]': masses} say; got "
            f"{over if isinstance(over, Mapping) else type(over).__name__}"
        )
    if any(map(is_traced, jax.tree.leaves((model, dict(over))))):
        raise ValueError(
            "sweep runs chunk after chunk from Python and cannot be compiled; inside "
            "jit, vmap or grad use jax.vmap of predict"
        )
    selection = select(model, tuple(over), argument="over")
    parameters = {path: _real(path, values) for path, values in over.items()}
    runs = {path: len(values) for path, values in parameters.items()}
    if len(set(runs.values())) > 1:
        raise ValueError(
            f"over must give every path the same number of runs, got {runs}; "
            "sweeps.grid makes all combinations"
        )
    table = [
        _rows(path, values, _shape(selection, path))
        for path, values in parameters.items()
    ]
    dtypes = [
        jnp.asarray(jax.tree.leaves(model)[p.leaf]).dtype for p in selection.parts
    ]
    return SweptParameters(
        parameters,
        selection,
        np.concatenate(table, axis=1).astype(jnp.result_type(*dtypes)),
    )


def _real(path: str, values: Any) -> np.ndarray:
    check_unitless(f"over[{path!r}]", values)
    array = np.asarray(as_jax_takes(f"over[{path!r}]", values))
    if array.dtype.kind not in "fiu":
        raise ValueError(f"over[{path!r}] must be real numbers, got {array.dtype}")
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(
            f"over[{path!r}] must have a leading run axis with at least one run, got "
            f"shape {array.shape}"
        )
    return array


def _shape(selection: Selection, path: str) -> tuple[int, ...]:
    """Shape of what a path names; of several leaves, their numbers in a row."""
    parts = [part for part in selection.parts if part.path == path]
    return parts[0].shape if len(parts) == 1 else (sum(part.size for part in parts),)


def _rows(path: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if values.shape[1:] != shape:
        raise ValueError(
            f"over[{path!r}] must have shape {('run', *shape)}, got {values.shape}"
        )
    return values.reshape(len(values), -1).astype(np.float64)
