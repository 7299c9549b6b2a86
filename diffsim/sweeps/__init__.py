"""The same prediction for many values of its parameters."""

from ._grid_samples import grid
from ._sweep import Failure, Sweep, sweep
from ._sweep_options import Run


__all__ = ["Failure", "Run", "Sweep", "grid", "sweep"]
