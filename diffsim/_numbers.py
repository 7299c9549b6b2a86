"""Numbers as users hold them, as JAX takes them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


_NATIVE = tuple(np.dtype(kind) for kind in (np.float32, np.float64))


def as_jax_takes(name: str, value: Any) -> Any:
    """`value`, or what it is in a type that JAX knows; other things come back as given.

    Foreign byte orders, as FITS has them, keep their type; extended precision and
    Python integers beyond 64 bits become doubles. Masks and dates are refused.
    """
    if isinstance(value, jax.Array | float | int) or (
        type(value) is np.ndarray and value.dtype in _NATIVE
    ):
        return _narrowed(value) if isinstance(value, int) else value
    if isinstance(value, list | tuple):
        return _of_list(name, value)
    _check_masked(name, value)
    dtype = getattr(value, "dtype", None)
    if not isinstance(value, np.ndarray | np.generic) or not isinstance(
        dtype, np.dtype
    ):
        return value
    return _native(name, np.asarray(value))


def as_array(value: Any) -> Array:
    """`jnp.asarray(value)`; of an array of NumPy's without a program to compile."""
    if type(value) is not np.ndarray:
        return jnp.asarray(value)
    # Told its type JAX copies it. Else it compiles a program for every shape.
    return jnp.asarray(value, jax.dtypes.canonicalize_dtype(value.dtype))


def as_vector(leaves: Sequence[Any]) -> Array:
    """All numbers of `leaves` as one vector, of known ones by NumPy."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return jnp.concatenate([jnp.reshape(jnp.asarray(leaf), -1) for leaf in leaves])
    dtype = jnp.result_type(*leaves)
    return as_array(np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(dtype))


def _of_list(name: str, value: Any) -> Any:
    if any(isinstance(x, jax.Array) for x in jax.tree.leaves(value)):
        return value
    for entry in jax.tree.leaves(value):
        _check_masked(name, entry)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # of several shapes
        return value
    # What JAX knows it makes an array of itself, of its own default type.
    strange = array.dtype.kind in "mMO" or array.dtype == np.longdouble
    strange = strange or any(map(_is_foreign, jax.tree.leaves(value)))
    return _native(name, array) if strange else value


def _is_foreign(entry: Any) -> bool:
    """Whether JAX cannot take this entry of a list."""
    if isinstance(entry, np.ndarray):
        return not entry.dtype.isnative
    return isinstance(entry, int) and abs(entry) >= 2**63


def _narrowed(value: int) -> int | float:
    return value if abs(value) < 2**63 else float(value)


def _native(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "mM":
        raise ValueError(
            f"{name} must be plain numbers, got dates of dtype {array.dtype}; count "
            f"from an epoch in a unit of yours, ({name} - epoch) / "
            "np.timedelta64(1, 'D')"
        )
    if array.dtype == np.longdouble:
        return array.astype(np.float64)
    whole = array.dtype.kind == "O" and all(
        isinstance(x, int | float | np.integer | np.floating)
        and not isinstance(x, bool)
        for x in array.flat
    )
    if whole:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_masked(name: str, value: Any):
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must be plain numbers, got {np.ma.count_masked(value)} of them "
            f"masked, which would count here; take {name}.compressed()"
        )
