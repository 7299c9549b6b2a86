"""From cells to what stands on either side of a face."""

from ._base import AbstractScheme, both_sides
from ._central import Central
from ._limiters import minmod, van_albada, van_leer
from ._muscl import MUSCL
from ._upwind import Upwind
from ._weno import WENO5


__all__ = [
    "MUSCL",
    "WENO5",
    "AbstractScheme",
    "Central",
    "Upwind",
    "both_sides",
    "minmod",
    "van_albada",
    "van_leer",
]
