"""What a simulation is, and how any of them is run."""

from .._failures import failures_as_nan
from ._adjoints import AbstractScanAdjoint, Checkpointed, Reversible
from ._event import Event, Occurrences
from ._explicit import AbstractOneStepSolver
from ._files import load, save
from ._finer import finer_steps
from ._flows import AbstractFlows, Flows
from ._method import Method
from ._semilinear import Semilinear
from ._separable import Separable
from ._simulate import simulate
from ._simulation import AbstractSimulation
from ._split import AbstractSplit, Split, split_of
from ._trajectory import Final, Trajectory


__all__ = [
    "AbstractFlows",
    "AbstractOneStepSolver",
    "AbstractScanAdjoint",
    "AbstractSimulation",
    "AbstractSplit",
    "Checkpointed",
    "Event",
    "Final",
    "Flows",
    "Method",
    "Occurrences",
    "Reversible",
    "Semilinear",
    "Separable",
    "Split",
    "Trajectory",
    "failures_as_nan",
    "finer_steps",
    "load",
    "save",
    "simulate",
    "split_of",
]
