"""Exponential integrators."""

from ._base import AbstractExponentialSolver
from ._etdrk import ETDRK2, ETDRK4


__all__ = ["ETDRK2", "ETDRK4", "AbstractExponentialSolver"]
