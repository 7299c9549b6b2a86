"""Checks that anyone can run on their own simulations, methods and derivatives."""

from ._convergence import Convergence, convergence
from ._manufactured import Manufactured
from ._relative_drift import relative_drift
from ._simulation_contract import Check, CheckReport, check_simulation
from ._taylor import LeafReport, TaylorReport, taylor_test


__all__ = [
    "Check",
    "CheckReport",
    "Convergence",
    "LeafReport",
    "Manufactured",
    "TaylorReport",
    "check_simulation",
    "convergence",
    "relative_drift",
    "taylor_test",
]
