"""What carries itself, in Fourier modes."""

from typing import Any

import jax
from jaxtyping import Array

from .._modes import Modes


def of_squares(factor: Any, z: Array, modes: Modes) -> Array:
    """The transform of factor ∂(u²)/∂x, x the first axis."""
    u = modes.backward(z)
    square = modes.forward(u * u)
    slope = factor * modes.derivative(0).imag
    return jax.lax.complex(-slope * square.imag, slope * square.real)
