"""Answers defined by equations, differentiated without looking into the solver."""

from ._root import Solution, root
from ._rule import Rule
from ._strategies import AbstractLinear, Dense, FromLineax


__all__ = ["AbstractLinear", "Dense", "FromLineax", "Rule", "Solution", "root"]
