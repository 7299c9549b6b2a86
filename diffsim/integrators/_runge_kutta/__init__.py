"""Runge–Kutta steps with implicit stages, for stiff systems."""

from ._base import AbstractStiffSolver
from ._kencarp import KenCarp3, KenCarp4, KenCarp5
from ._kvaerno import Kvaerno3, Kvaerno5


__all__ = [
    "AbstractStiffSolver",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
]
