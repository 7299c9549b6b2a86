"""Runge–Kutta steps: implicit for stiff systems, explicit where bounds matter."""

from ._ars import ARS222, ARS443
from ._crank_nicolson import CrankNicolson
from ._esdirk import AbstractImplicitRungeKutta
from ._kencarp import KenCarp3, KenCarp4, KenCarp5
from ._kvaerno import Kvaerno3, Kvaerno5
from ._ssprk import SSPRK3


__all__ = [
    "ARS222",
    "ARS443",
    "SSPRK3",
    "AbstractImplicitRungeKutta",
    "CrankNicolson",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
]
