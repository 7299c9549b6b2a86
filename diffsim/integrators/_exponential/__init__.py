"""Exponential integrators."""

from ._etdrk import ETDRK2, ETDRK4
from ._exponential_solver import AbstractExponentialSolver


__all__ = ["ETDRK2", "ETDRK4", "AbstractExponentialSolver"]
