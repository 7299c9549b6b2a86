"""Coefficients: numbers, fields or functions."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._checks import as_floating, check_positive
from .._domain import Domain
from .._modes import Modes


def coefficient(name: str, given: Any) -> Any:
    """A number, a field or a function, as an equation keeps it."""
    return given if callable(given) else as_floating(name, given)


def positive(name: str, given: Any) -> Any:
    """The same of what spreads; what a function gives is not known yet."""
    if not callable(given):
        hint = "negative ones make a field rougher without bound"
        check_positive(name, as_floating(name, given), hint)
    return coefficient(name, given)


def optional(name: str, given: Any) -> Any:
    """A coefficient, or None where there is none."""
    return None if given is None else coefficient(name, given)


def fed(rate: Array, source: Any, t: Any, domain: Domain, u: Array) -> Array:
    """A rate with what a source adds to it, a function of (t, x, u) for instance.

    Of an equation for one channel the source is told of the field alone.
    """
    if source is None:
        return rate
    x = domain.grid.centers.astype(u.dtype)
    return rate + evaluated(source, t, x, u[0] if len(u) == 1 else u)


def fed_in_modes(rate: Array, source: Any, t: Any, z: Array, modes: Modes) -> Array:
    """The same of one channel in modes, by the transform of the source."""
    if source is None:
        return rate
    field = modes.backward(z)[0] if callable(source) else z
    found = evaluated(source, t, modes.grid.centers, field)
    return rate + modes.forward(jnp.broadcast_to(found, (1, *modes.grid.shape)))


def evaluated(given: Any, t: Any, x: Array, *fields: Array) -> Array:
    """What it is at t, x and where it is told of fields, in the type of x."""
    found = jnp.asarray(given(t, x, *fields) if callable(given) else given, x.dtype)
    grid = x.shape[1:]
    pairs = zip(found.shape[-len(grid) :], grid, strict=False)
    whole = found.ndim >= len(grid) and all(a in (1, n) for a, n in pairs)
    if found.ndim and not whole:
        raise ValueError(
            "coefficients and sources must be numbers or have the grid as their last "
            f"axes, {grid}, got shape {found.shape}"
        )
    return found
