"""What JAX cannot follow in the functions that users give, in one sentence."""

import contextlib
from collections.abc import Iterator

import jax


_CANNOT = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextlib.contextmanager
def followed_by_jax(name: str) -> Iterator[None]:
    """Inside, `name` is called: what needs values too early raises `ValueError`."""
    try:
        yield
    except _CANNOT as error:
        raise ValueError(
            f"{name} must be written in jax.numpy, which can compile it: {_what(error)}"
        ) from error


def _what(error: Exception) -> str:
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return (
            "got an `if`, `while` or `and` that asks for a value; write "
            "jnp.where(t < 0.5, a, b) for a if t < 0.5 else b"
        )
    if isinstance(error, jax.errors.NonConcreteBooleanIndexError):
        return (
            "got a field indexed by a condition, u[u > 0], of a length that depends on "
            "values; write jnp.where(u > 0, u, 0)"
        )
    return (
        "got a function of NumPy or math, or float() or int(), of what it is told; "
        "write jnp.sin(t) for math.sin(t) and np.sin(t), after import jax.numpy as jnp"
    )
