"""Convective terms in Fourier space."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._domain import Domain
from .._fourier import FourierBasis


def convective_term(factor: Any, z: Array, modes: FourierBasis) -> Array:
    """The transform of factor ∂(u²)/∂x, x the first axis."""
    u = modes.ifft(z)
    square = modes.fft(u * u)
    slope = factor * modes.derivative(0).imag
    return jax.lax.complex(-slope * square.imag, slope * square.real)


def max_speeds(velocity: Array, domain: Domain) -> Array:
    """|v| along each axis, where it crosses most cells; v has shape (axis, *grid)."""
    speeds = jnp.abs(velocity).reshape(len(velocity), -1)
    spacing = domain.grid.spacing.astype(speeds.dtype)
    return speeds[:, jnp.argmax(jnp.sum(speeds / spacing[:, None], axis=0))]
