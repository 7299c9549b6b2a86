"""Answers defined by equations, differentiated without looking into the solver."""

from ._adjoint_report import AdjointReport, adjoint_report
from ._anderson import Anderson
from ._bracketed_newton import Bracketed
from ._fixed_point import fixed_point
from ._implicit_differentiation import Equation, Rule, solved
from ._linear_solve import linear_solve
from ._linear_solvers import (
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
from ._minimise import least_squares, minimise
from ._newton import Newton
from ._newton_krylov import NewtonKrylov
from ._optimistix_adjoint import ImplicitAdjoint
from ._picard import Picard
from ._root import root
from ._solution import Solution


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
