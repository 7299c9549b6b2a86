"""Linear systems, and what is known about them."""

from ._banded import Banded, Diagonal, Tridiagonal
from ._block_tridiagonal import BlockTridiagonal
from ._dense import Dense
from ._gmres import FGMRES, GMRES
from ._krylov import Krylov
from ._krylov_methods import CG, MINRES, AbstractKrylovMethod, BiCGStab
from ._lagged_lu import LaggedLU
from ._linear_solver import (
    AbstractLinearSolver,
    ForwardAdjointSolvers,
    Operator,
    as_linear_solver,
)
from ._lineax import LineaxSolver
from ._minimum_norm import MinimumNorm


__all__ = [
    "CG",
    "FGMRES",
    "GMRES",
    "MINRES",
    "AbstractKrylovMethod",
    "AbstractLinearSolver",
    "Banded",
    "BiCGStab",
    "BlockTridiagonal",
    "Dense",
    "Diagonal",
    "ForwardAdjointSolvers",
    "Krylov",
    "LaggedLU",
    "LineaxSolver",
    "MinimumNorm",
    "Operator",
    "Tridiagonal",
    "as_linear_solver",
]
