"""One warning where arrays are in single precision."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._paths import joined, step_to


_MOST_NAMES = 6


def warn_of_single_precision(act: str, model: PyTree, data: PyTree):
    """Warn if JAX runs in float32, or arrays do: error bars lose digits first."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"{act} in float32: error bars and weak directions lose digits first; for "
            'float64 call jax.config.update("jax_enable_x64", True) first of all',
            stacklevel=3,
        )
        return
    names = _short_floats("model", model) + _short_floats("data", data)
    if names:
        more = len(names) - _MOST_NAMES
        listed = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" * (more > 0))
        warnings.warn(
            f"{act} of arrays below float64 in a float64 session: {listed}; a run "
            "takes the precision of its state, and error bars lose digits first; give "
            "jnp.asarray(x, float), or filter this warning if it is meant",
            stacklevel=3,
        )


def _short_floats(root: str, tree: PyTree) -> list[str]:
    """Names of floating arrays below double precision, with their types."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [
        f"{joined((root, *map(step_to, path)))} ({leaf.dtype})"
        for path, leaf in leaves
        if _is_short(leaf)
    ]


def _is_short(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return False
    return jnp.finfo(dtype).bits < 64
