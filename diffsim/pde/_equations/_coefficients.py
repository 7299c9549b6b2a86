"""Coefficients: numbers, fields or functions."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._checks import as_floating, check_positive


def coefficient(name: str, given: Any) -> Any:
    """A number, a field or a function, as an equation keeps it."""
    return given if callable(given) else as_floating(name, given)


def positive(name: str, given: Any) -> Any:
    """The same of what spreads; what a function gives is not known yet."""
    if not callable(given):
        hint = "negative ones make a field rougher without bound"
        check_positive(name, as_floating(name, given), hint)
    return coefficient(name, given)


def evaluated(given: Any, t: Any, x: Array, *fields: Array) -> Array:
    """What it is at t, x and where it is told of fields, in the type of x."""
    found = given(t, x, *fields) if callable(given) else given
    return jnp.asarray(found, x.dtype)
