"""Elliptic problems and their solvers."""

from ._differentiable_solve import PreconditionedSolver, default_solver, system_solution
from ._elliptic_solver import AbstractEllipticSolver, AbstractPreconditioner
from ._fast_diagonalization import FastDiagonalization
from ._helmholtz_operator import system_of
from ._multigrid import Multigrid
from ._poisson import helmholtz, poisson
from ._preconditioned_krylov import PreconditionedKrylov
from ._tensor_eigenbasis import Kinds, eigenvectors, in_waves
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
    "default_solver",
    "eigenvectors",
    "helmholtz",
    "in_waves",
    "poisson",
    "system_of",
    "system_solution",
]
