"""Differentiable physics simulations: run them, fit them, forecast with them.

`simulate` runs a simulation, `fit` its parameters to data, `fisher` forecasts what an
experiment will determine, `sweep` runs many at once. Everything is differentiable with
respect to every number that goes in, forward and reverse.
"""

import importlib

from . import (
    implicit as implicit,
    inference as inference,
    integrators as integrators,
    nbody as nbody,
    pde as pde,
    simulations as simulations,
    sweeps as sweeps,
    verify as verify,
)
from ._citations import cite as cite
from ._results import RESULTS as RESULTS
from .inference import Free as Free, fisher as fisher, fit as fit
from .simulations import (
    AbstractSimulation as AbstractSimulation,
    Method as Method,
    Trajectory as Trajectory,
    failures_as_nan as failures_as_nan,
    load as load,
    save as save,
    simulate as simulate,
)
from .sweeps import sweep as sweep


__version__ = "0.1.0"

_LAZY = ("plots", "cli")


def __getattr__(name: str):
    """`plots` and `cli` load on first use: they need packages that a cluster lacks."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'diffsim' has no attribute {name!r}")
