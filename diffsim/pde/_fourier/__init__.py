"""Fourier space: basis functions and transforms."""

from ._basis import Modes


__all__ = ["Modes"]
