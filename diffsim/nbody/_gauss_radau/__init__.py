"""Gauss–Radau collocation of order 15."""

from ._ias15 import IAS15


__all__ = ["IAS15"]
