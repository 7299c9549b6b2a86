"""Incompressible flow between walls."""

from ._incompressible import IncompressibleFlow
from ._obstacle import Ball, Obstacle
from ._walls import FreeSlip, NoSlip


__all__ = ["Ball", "FreeSlip", "IncompressibleFlow", "NoSlip", "Obstacle"]
