"""Runge–Kutta steps: with implicit stages for stiff systems, and averages of Euler's."""

from ._base import AbstractStiffSolver
from ._kencarp import KenCarp3, KenCarp4, KenCarp5
from ._kvaerno import Kvaerno3, Kvaerno5
from ._ssprk import SSPRK3


__all__ = [
    "AbstractStiffSolver",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
    "SSPRK3",
]
