"""Elliptic problems and their solvers."""

from ._differentiable_solve import PreconditionedSolver, default_solver, solve_elliptic
from ._fast_diagonalization import FastDiagonalization
from ._helmholtz_operator import (
    AbstractEllipticSolver,
    AbstractPreconditioner,
    helmholtz_operator,
)
from ._multigrid import Multigrid
from ._poisson import helmholtz, helmholtz_solution, poisson, poisson_solution
from ._preconditioned_krylov import PreconditionedKrylov
from ._tensor_eigenbasis import Kinds, apply_in_eigenbasis, eigenvectors
from ._tridiagonal_elimination import TridiagonalElimination


__all__ = [
    "AbstractEllipticSolver",
    "AbstractPreconditioner",
    "FastDiagonalization",
    "Kinds",
    "Multigrid",
    "PreconditionedKrylov",
    "PreconditionedSolver",
    "TridiagonalElimination",
    "apply_in_eigenbasis",
    "default_solver",
    "eigenvectors",
    "helmholtz",
    "helmholtz_operator",
    "helmholtz_solution",
    "poisson",
    "poisson_solution",
    "solve_elliptic",
]
