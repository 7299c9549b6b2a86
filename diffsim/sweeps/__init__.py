"""The same prediction for many values of its parameters."""

from ._grid import grid
from ._run import Run
from ._sweep import Failure, Sweep, sweep


__all__ = ["Failure", "Run", "Sweep", "grid", "sweep"]
