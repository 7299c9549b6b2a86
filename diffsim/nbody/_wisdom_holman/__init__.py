"""Wisdom and Holman's splitting into Kepler orbits and their perturbations."""

from ._wisdom_holman import WisdomHolman


__all__ = ["WisdomHolman"]
