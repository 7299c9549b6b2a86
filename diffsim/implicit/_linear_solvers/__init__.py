"""Linear systems, and what is known about them."""

from ._banded import Banded
from ._bicgstab import BiCGStab
from ._block_tridiagonal import BlockTridiagonal
from ._cg import CG
from ._dense import Dense
from ._diagonal import Diagonal
from ._gmres import FGMRES, GMRES
from ._krylov import Krylov
from ._krylov_method import AbstractKrylovMethod
from ._lagged_lu import LaggedLU
from ._linear_solver import (
    AbstractLinearSolver,
    ForwardAdjointSolvers,
    Operator,
    check_linear_solver,
)
from ._lineax import LineaxSolver
from ._minimum_norm import MinimumNorm
from ._minres import MINRES
from ._tridiagonal import Tridiagonal


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
    "check_linear_solver",
]
