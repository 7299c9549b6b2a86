"""Coefficients: numbers, fields or functions."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._inspection import depends_on_first
from ..._jaxpr._tracing import explain_tracer_errors
from ..._validation import PositiveParameter, as_floating, checked_return
from .._boundaries import array_or_function
from .._domain import Domain
from .._finite_volume import shapes_on_faces, values_on_faces
from .._fourier import FourierBasis


#: Arguments of functions: the time, the places (axis, *grid), and the field.
_ARGUMENTS = ("t", "x", "u")

#: Coefficients that are added to rates, whose channels they may have.
_SOURCES = ("source", "forcing")


def coefficient(
    name: str, given: Any, arguments: tuple[str, ...] = _ARGUMENTS
) -> Array | Callable:
    """Validate a number, a field or a function of `arguments`."""
    return array_or_function(name, given, arguments)


def diffusivity_coefficient(
    name: str, given: Any
) -> Array | tuple[Array, ...] | Callable:
    """Validate a number, a field, a tuple of fields on faces, or a function."""
    if isinstance(given, tuple) and any(map(jnp.ndim, given)):
        return tuple(as_floating(name, one) for one in given)
    return coefficient(name, given)


def diffusivity_on_faces(
    given: Any, face_mean: str | None, t: Any, u: Array, domain: Domain
) -> list[Array]:
    """The diffusivity of a channel u on the faces across each axis.

    **Arguments:** `face_mean`: None is the harmonic one, and the arithmetic one of a
    function that reads u.
    """
    if isinstance(given, tuple):
        return values_on_faces(given, domain, u.dtype)
    x = domain.grid.centers.astype(u.dtype)
    name = "the diffusivity of a channel"

    def evaluate(u):
        return evaluate_coefficient(name, given, t, x, u)

    k = evaluate(u)
    if k.ndim > domain.grid.ndim:
        raise ValueError(
            f"{name} must be a number or a field of the shape of the grid, "
            f"{domain.grid.shape}, got shape {k.shape}"
        )
    if face_mean is None and k.ndim:
        moves = callable(given) and depends_on_first(evaluate, u)
        face_mean = "arithmetic" if moves else "harmonic"
    return values_on_faces(k, domain, u.dtype, face_mean or "harmonic")


def positive_diffusivities(
    name: str, value: Any, *, zero: bool = False
) -> tuple[PositiveParameter, ...]:
    """Signs of a diffusivity, on faces one of each axis."""
    several = value if isinstance(value, tuple) else (value,)
    return tuple(positive_diffusivity(name, one, zero=zero) for one in several)


def positive_diffusivity(
    name: str, value: Any, *, zero: bool = False
) -> PositiveParameter:
    """Sign of a diffusivity; `zero` where it may vanish."""
    hint = "negative ones make a field rougher without bound"
    if not zero:
        hint = f"of zero nothing diffuses, and {hint}"
    return PositiveParameter(name, value, zero, hint)


def optional_coefficient(
    name: str, given: Any, arguments: tuple[str, ...] = _ARGUMENTS
) -> Array | Callable | None:
    """Validate a coefficient, or None where there is none."""
    return None if given is None else coefficient(name, given, arguments)


def check_coefficients(equation: Any, channels: int, grid: tuple[int, ...]):
    """Raise `ValueError` for those that do not fit a grid of this shape."""
    for name in equation.coefficients:
        given = getattr(equation, name)
        if isinstance(given, tuple) and _are_on_faces(given, grid):
            continue
        for one in given if isinstance(given, tuple) else (given,):
            if one is not None and not callable(one):
                _check_shape(name, jnp.shape(one), channels, grid)


def _are_on_faces(given: tuple[Any, ...], grid: tuple[int, ...]) -> bool:
    return [jnp.shape(one) for one in given] == shapes_on_faces(grid)


def _check_shape(
    name: str, shape: tuple[int, ...], channels: int, grid: tuple[int, ...]
):
    is_source = name in _SOURCES
    most = (channels, *grid) if is_source else grid
    fits = not shape or len(grid) <= len(shape) <= len(most)
    pairs = zip(reversed(shape), reversed(most), strict=False)
    if fits and all(a in (1, n) for a, n in pairs):
        return
    others = f"{channels} channels or none" if is_source else "nothing"
    raise ValueError(
        f"{name} must be a number or have the grid as its last axes, {grid}, got shape "
        f"{shape}; before those axes there are {others}"
    )


def add_source(rate: Array, source: Any, t: Any, x: Array, u: Array) -> Array:
    """Add a source to a rate, a function of (t, x, u) for instance.

    Of an equation for one channel the source is given the field alone.
    """
    if source is None:
        return rate
    field = u[0] if len(u) == 1 else u
    found = evaluate_coefficient("source", source, t, x.astype(u.dtype), field)
    pairs = zip(reversed(found.shape), reversed(rate.shape), strict=False)
    if found.ndim > rate.ndim or any(a not in (1, n) for a, n in pairs):
        raise ValueError(
            f"source must be a number, or of shape {rate.shape[1:]} or {rate.shape}, "
            f"the grid and the channels before it, got shape {found.shape}"
        )
    return rate + found


def source_transform(source: Any, t: Any, z: Array, modes: FourierBasis) -> Array:
    """Evaluate a source for the field of z, and return its transform."""
    field = modes.ifft(z)
    return modes.fft(
        add_source(jnp.zeros_like(field), source, t, modes.grid.centers, field)
    )


def add_source_transform(
    rate: Array, source: Any, t: Any, z: Array, modes: FourierBasis
) -> Array:
    """Add the transform of a source to a rate in Fourier space."""
    return rate if source is None else rate + source_transform(source, t, z, modes)


def evaluate_coefficient(
    name: str, given: Any, t: Any, x: Array, *fields: Array
) -> Array:
    """Evaluate a coefficient at t, x and fields, in the type of x."""
    if not callable(given):
        return coefficient_values(name, given, x)
    with explain_tracer_errors(name):
        found = given(t, x, *fields)
    return coefficient_values(name, found, x)


def coefficient_values(name: str, given: Any, x: Array) -> Array:
    """Convert numbers or fields to the type of x; refuse those of another grid."""
    found, grid = checked_return(name, given, x.dtype), x.shape[1:]
    pairs = zip(found.shape[-len(grid) :], grid, strict=False)
    whole = found.ndim >= len(grid) and all(a in (1, n) for a, n in pairs)
    if found.ndim and not whole:
        raise ValueError(
            f"{name} must be a number or have the grid as its last axes, {grid}, got "
            f"shape {found.shape}"
        )
    return found
