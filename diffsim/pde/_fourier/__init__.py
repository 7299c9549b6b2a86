"""Fourier space: basis functions and transforms."""

from ._basis import FourierBasis


__all__ = ["FourierBasis"]
