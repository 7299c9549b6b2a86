"""Linear systems, and what is known about them."""

from ._banded import Banded
from ._bicgstab import BiCGStab
from ._block_tridiagonal import BlockTridiagonal
from ._cg import CG
from ._dense import Dense
from ._diagonal import Diagonal
from ._forward_adjoint import Split
from ._gmres import FGMRES, GMRES
from ._krylov import Krylov
from ._krylov_method import AbstractKrylovMethod
from ._lagged_lu import StaleLU
from ._linear_solver import AbstractLinear, Operator, check_strategy
from ._lineax import FromLineax
from ._minimum_norm import LeastNorm
from ._minres import MINRES
from ._tridiagonal import Tridiagonal


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
    "Diagonal",
    "FromLineax",
    "Krylov",
    "LeastNorm",
    "Operator",
    "Split",
    "StaleLU",
    "Tridiagonal",
    "check_strategy",
]
