"""Elliptic problems and their solvers."""

from ._differentiable_solve import Led, default_solver, system_solution
from ._elliptic_solver import AbstractElliptic, AbstractPreconditioner
from ._fast_diagonalization import Transforms
from ._helmholtz_operator import system_of
from ._multigrid import Multigrid
from ._poisson import helmholtz, poisson
from ._preconditioned_krylov import Preconditioned
from ._tensor_eigenbasis import Kinds, eigenvectors, in_waves
from ._tridiagonal_elimination import Elimination


__all__ = [
    "AbstractElliptic",
    "AbstractPreconditioner",
    "Elimination",
    "Kinds",
    "Led",
    "Multigrid",
    "Preconditioned",
    "Transforms",
    "default_solver",
    "eigenvectors",
    "helmholtz",
    "in_waves",
    "poisson",
    "system_of",
    "system_solution",
]
