"""What holds at the walls of a grid."""

from ._boundary import AbstractBoundary, AbstractSide, Ghosts, Periodic
from ._inflow_outflow import Continued, Inflow, Outflow
from ._per_side import pairs_of
from ._reflecting import Mirror, Wall
from ._robin import Dirichlet, Neumann, Robin


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
