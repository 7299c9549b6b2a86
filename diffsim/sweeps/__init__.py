"""The same prediction for many values of its parameters."""

from ._completed_sweep import Failure, Sweep
from ._samples import from_prior, grid, latin_hypercube, sobol
from ._store_status import StoreStatus, store_status
from ._sweep import sweep
from ._sweep_options import SweepOptions


__all__ = [
    "Failure",
    "StoreStatus",
    "Sweep",
    "SweepOptions",
    "from_prior",
    "grid",
    "latin_hypercube",
    "sobol",
    "store_status",
    "sweep",
]
