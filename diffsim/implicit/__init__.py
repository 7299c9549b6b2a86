"""Solutions of equations, with derivatives by the implicit function theorem."""

from ._adjoint_report import AdjointReport, adjoint_report
from ._anderson import Anderson
from ._bracketed_newton import BracketedNewton
from ._fixed_point import fixed_point, fixed_point_solution
from ._implicit_differentiation import (
    ImplicitAdjoint,
    ImplicitEquation,
    implicit_solve,
)
from ._linear_solve import linear_solve, linear_solve_solution
from ._linear_solvers import (
    CG,
    FGMRES,
    GMRES,
    MINRES,
    AbstractKrylovMethod,
    AbstractLinearSolver,
    Banded,
    BiCGStab,
    BlockTridiagonal,
    Dense,
    Diagonal,
    ForwardAdjointSolvers,
    Krylov,
    LaggedLU,
    LineaxSolver,
    MinimumNorm,
    Tridiagonal,
)
from ._minimise import (
    least_squares,
    least_squares_solution,
    minimise,
    minimise_solution,
)
from ._newton import Newton
from ._newton_krylov import AbstractInexactNewton, NewtonKrylov
from ._picard import Picard
from ._root import root, root_solution
from ._solution import Solution


__all__ = [
    "CG",
    "FGMRES",
    "GMRES",
    "MINRES",
    "AbstractInexactNewton",
    "AbstractKrylovMethod",
    "AbstractLinearSolver",
    "AdjointReport",
    "Anderson",
    "Banded",
    "BiCGStab",
    "BlockTridiagonal",
    "BracketedNewton",
    "Dense",
    "Diagonal",
    "ForwardAdjointSolvers",
    "ImplicitAdjoint",
    "ImplicitEquation",
    "Krylov",
    "LaggedLU",
    "LineaxSolver",
    "MinimumNorm",
    "Newton",
    "NewtonKrylov",
    "Picard",
    "Solution",
    "Tridiagonal",
    "adjoint_report",
    "fixed_point",
    "fixed_point_solution",
    "implicit_solve",
    "least_squares",
    "least_squares_solution",
    "linear_solve",
    "linear_solve_solution",
    "minimise",
    "minimise_solution",
    "root",
    "root_solution",
]
