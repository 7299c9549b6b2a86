"""Answers defined by equations, differentiated without looking into the solver."""

from ._newton import Newton
from ._root import Solution, root
from ._rule import Rule
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
    "Banded",
    "BiCGStab",
    "BlockTridiagonal",
    "Dense",
    "FromLineax",
    "Krylov",
    "LeastNorm",
    "Newton",
    "Rule",
    "Solution",
    "Split",
    "StaleLU",
    "Tridiagonal",
    "root",
]
