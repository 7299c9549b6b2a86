"""Fourier space: basis functions and transforms."""

from ._basis import FourierBasis
from ._fft import hermitian_weights


__all__ = ["FourierBasis", "hermitian_weights"]
