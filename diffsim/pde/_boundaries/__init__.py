"""What holds at the walls of a grid."""

from ._base import AbstractBoundary, Ghosts
from ._kinds import Continued, Dirichlet, Inflow, Neumann, Outflow, Periodic, Robin


__all__ = [
    "AbstractBoundary",
    "Continued",
    "Dirichlet",
    "Ghosts",
    "Inflow",
    "Neumann",
    "Outflow",
    "Periodic",
    "Robin",
]
