"""The same prediction for many values of its parameters."""

from ._grid_samples import grid
from ._random_samples import from_prior, latin_hypercube, sobol
from ._sweep import Failure, Sweep, sweep
from ._sweep_options import SweepOptions


__all__ = [
    "Failure",
    "Sweep",
    "SweepOptions",
    "from_prior",
    "grid",
    "latin_hypercube",
    "sobol",
    "sweep",
]
