"""Runge–Kutta steps: implicit for stiff systems, explicit where bounds matter."""

from ._base import AbstractStiffSolver
from ._kencarp import KenCarp3, KenCarp4, KenCarp5
from ._kvaerno import Kvaerno3, Kvaerno5
from ._ssprk import SSPRK3


__all__ = [
    "SSPRK3",
    "AbstractStiffSolver",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
]
