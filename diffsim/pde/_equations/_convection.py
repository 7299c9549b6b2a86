"""What carries itself, in Fourier modes."""

from typing import Any

from jaxtyping import Array

from .._modes import Modes


def of_squares(factor: Any, z: Array, modes: Modes) -> Array:
    """The transform of factor ∂(u²)/∂x, x the first axis."""
    u = modes.backward(z)
    return factor * modes.derivative(0) * modes.forward(u**2)
