"""Checks that anyone can run on their own simulations, methods and derivatives."""

from ._convergence import Convergence, convergence
from ._manufactured import Manufactured
from ._relative_drift import drift
from ._simulation_contract import Contract, Law, check_simulation
from ._taylor import LeafTaylor, Taylor, taylor_test


__all__ = [
    "Contract",
    "Convergence",
    "Law",
    "LeafTaylor",
    "Manufactured",
    "Taylor",
    "check_simulation",
    "convergence",
    "drift",
    "taylor_test",
]
