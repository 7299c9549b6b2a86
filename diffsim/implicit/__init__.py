"""Answers defined by equations, differentiated without looking into the solver."""

from ._adjoint import ImplicitAdjoint
from ._adjoint_report import AdjointReport, adjoint_report
from ._bracketed import Bracketed
from ._fixed_point import fixed_point
from ._fixed_point_solvers import Anderson, Picard
from ._linear_solve import linear_solve
from ._minimise import least_squares, minimise
from ._newton import Newton
from ._newton_krylov import NewtonKrylov
from ._root import root
from ._rule import Equation, Rule, solved
from ._solution import Solution
from ._strategies import (
    CG,
    FGMRES,
    GMRES,
    MINRES,
    AbstractKrylovMethod,
    AbstractLinear,
    Banded,
    BiCGStab,
    BlockTridiagonal,
    Dense,
    Diagonal,
    FromLineax,
    Krylov,
    LeastNorm,
    Split,
    StaleLU,
    Tridiagonal,
)


__all__ = [
    "CG",
    "FGMRES",
    "GMRES",
    "MINRES",
    "AbstractKrylovMethod",
    "AbstractLinear",
    "AdjointReport",
    "Anderson",
    "Banded",
    "BiCGStab",
    "BlockTridiagonal",
    "Bracketed",
    "Dense",
    "Diagonal",
    "Equation",
    "FromLineax",
    "ImplicitAdjoint",
    "Krylov",
    "LeastNorm",
    "Newton",
    "NewtonKrylov",
    "Picard",
    "Rule",
    "Solution",
    "Split",
    "StaleLU",
    "Tridiagonal",
    "adjoint_report",
    "fixed_point",
    "least_squares",
    "linear_solve",
    "minimise",
    "root",
    "solved",
]
