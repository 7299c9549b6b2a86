"""Wisdom and Holman's splitting into Kepler orbits and their perturbations."""

from ._hybrid import HybridWisdomHolman
from ._saba import SABA
from ._wisdom_holman import WisdomHolman


__all__ = ["SABA", "HybridWisdomHolman", "WisdomHolman"]
