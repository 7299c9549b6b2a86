"""What holds at the walls of a grid."""

from ._base import AbstractBoundary, AbstractSide, Ghosts
from ._kinds import (
    Continued,
    Dirichlet,
    Inflow,
    Mirror,
    Neumann,
    Outflow,
    Periodic,
    Robin,
    Wall,
)
from ._pairs import pairs_of


__all__ = [
    "AbstractBoundary",
    "AbstractSide",
    "Continued",
    "Dirichlet",
    "Ghosts",
    "Inflow",
    "Mirror",
    "Neumann",
    "Outflow",
    "Periodic",
    "Robin",
    "Wall",
    "pairs_of",
]
