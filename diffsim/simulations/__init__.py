"""What a simulation is, and how any of them is run."""

from .._failures import failures_as_nan
from ._adjoints import AbstractScanAdjoint, Checkpointed, Reversible
from ._event import Event, Occurrences
from ._explicit import AbstractOneStepSolver
from ._files import load, save
from ._finer import finer_steps
from ._method import Method
from ._separable import Separable
from ._simulate import simulate
from ._simulation import AbstractSimulation
from ._trajectory import Final, Trajectory


__all__ = [
    "AbstractOneStepSolver",
    "AbstractScanAdjoint",
    "AbstractSimulation",
    "Checkpointed",
    "Event",
    "Final",
    "Method",
    "Occurrences",
    "Reversible",
    "Separable",
    "Trajectory",
    "failures_as_nan",
    "finer_steps",
    "load",
    "save",
    "simulate",
]
