"""Simulations and how they are run."""

from .._results import failures_as_nan
from ._events._event import Event, EventRecord
from ._integrate._checkpointed_adjoint import (
    Checkpointed,
    Reversible,
)
from ._integrate._splitting_solver import (
    AbstractSplittingSolver,
    AbstractUnsynchronizedSolver,
)
from ._integrate._substeps import adaptive_substeps
from ._method import Method
from ._serialization._save_and_load import load, save
from ._simulate import simulate
from ._simulation import AbstractSimulation
from ._state_axes import AbstractStateAxes, StateAxes
from ._step_refinement import refined_steps
from ._terms._imex import AbstractIMEXTerm, IMEXTerm
from ._terms._operator_splitting import AbstractSplitFlows, SplitFlows
from ._terms._semilinear import Semilinear
from ._terms._separable import Separable
from ._trajectory import FinalState, Trajectory


__all__ = [
    "AbstractIMEXTerm",
    "AbstractSimulation",
    "AbstractSplitFlows",
    "AbstractSplittingSolver",
    "AbstractStateAxes",
    "AbstractUnsynchronizedSolver",
    "Checkpointed",
    "Event",
    "EventRecord",
    "FinalState",
    "IMEXTerm",
    "Method",
    "Reversible",
    "Semilinear",
    "Separable",
    "SplitFlows",
    "StateAxes",
    "Trajectory",
    "adaptive_substeps",
    "failures_as_nan",
    "load",
    "refined_steps",
    "save",
    "simulate",
]
