"""Incompressible flow between walls."""

from ._incompressible_flow import IncompressibleFlow
from ._penalization import Ball, Obstacle
from ._projection import leray_project, project_out_gradient
from ._staggered_grid import Faces, StaggeredGrid
from ._walls import FreeSlip, NoSlip, Side, is_open


__all__ = [
    "Ball",
    "Faces",
    "FreeSlip",
    "IncompressibleFlow",
    "NoSlip",
    "Obstacle",
    "Side",
    "StaggeredGrid",
    "is_open",
    "leray_project",
    "project_out_gradient",
]
