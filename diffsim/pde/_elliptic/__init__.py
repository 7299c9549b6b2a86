"""Elliptic problems and their solvers."""

from ._base import AbstractElliptic, AbstractPreconditioner
from ._elimination import Elimination
from ._multigrid import Multigrid
from ._preconditioned import Preconditioned
from ._problems import helmholtz, poisson
from ._solve import Led, default_solver, system_solution
from ._system import system_of
from ._transforms import Transforms


__all__ = [
    "AbstractElliptic",
    "AbstractPreconditioner",
    "Elimination",
    "Led",
    "Multigrid",
    "Preconditioned",
    "Transforms",
    "default_solver",
    "helmholtz",
    "poisson",
    "system_of",
    "system_solution",
]
