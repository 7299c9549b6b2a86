"""What passes a face that has one state on its left and another on its right."""

from ._base import AbstractRiemann, Channels
from ._hll import HLL
from ._hllc import HLLC
from ._rusanov import Rusanov


__all__ = ["HLL", "HLLC", "AbstractRiemann", "Channels", "Rusanov"]
