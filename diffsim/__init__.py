"""Differentiable physics simulations: run them, fit them, forecast with them.

`simulate` runs a simulation, `fit` its parameters to data, `fisher` forecasts what an
experiment will determine, `sweep` runs many at once. Everything is differentiable with
respect to every number that goes in, forward and reverse.
"""

import importlib
from typing import TYPE_CHECKING

from . import (
    implicit as implicit,
    integrators as integrators,
    nbody as nbody,
    simulations as simulations,
)
from ._citations import cite as cite
from ._configure import configure as configure
from ._results import RESULTS as RESULTS
from .simulations import (
    AbstractSimulation as AbstractSimulation,
    Method as Method,
    Trajectory as Trajectory,
    failures_as_nan as failures_as_nan,
    load as load,
    save as save,
    simulate as simulate,
)


if TYPE_CHECKING:
    from . import (
        cli as cli,
        inference as inference,
        pde as pde,
        plots as plots,
        problems as problems,
        sweeps as sweeps,
        verify as verify,
    )
    from .inference import (
        Free as Free,
        fisher as fisher,
        fisher_operator as fisher_operator,
        fit as fit,
    )
    from .sweeps import sweep as sweep


__version__ = "0.1.0"

# Packages that load on first use, a third of a second sooner each than all at once, and
# what stands at the top of them. `plots` and `cli` need what a cluster lacks, too.
_PACKAGES = ("cli", "inference", "pde", "plots", "problems", "sweeps", "verify")
_HOMES = {
    "Free": "inference",
    "fisher": "inference",
    "fisher_operator": "inference",
    "fit": "inference",
    "sweep": "sweeps",
}


def __getattr__(name: str) -> object:
    """Load a package on first use."""
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module 'diffsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_HOMES})
