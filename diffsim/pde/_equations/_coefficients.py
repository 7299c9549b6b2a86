"""Coefficients: numbers, fields or functions."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._checks import as_floating


def coefficient(name: str, given: Any) -> Any:
    """A number, a field or a function, as an equation keeps it."""
    return given if callable(given) else as_floating(name, given)


def evaluated(given: Any, t: Any, x: Array, *fields: Array) -> Array:
    """What it is at t, x and where it is told of fields, in the type of x."""
    found = given(t, x, *fields) if callable(given) else given
    return jnp.asarray(found, x.dtype)
