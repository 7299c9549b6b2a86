"""Linear systems, and what is known about them."""

from ._banded import Banded, Tridiagonal
from ._base import AbstractLinear
from ._block_tridiagonal import BlockTridiagonal
from ._dense import Dense
from ._diagonal import Diagonal
from ._from_lineax import FromLineax
from ._gmres import FGMRES, GMRES
from ._krylov import Krylov
from ._least_norm import LeastNorm
from ._method import CG, MINRES, AbstractKrylovMethod, BiCGStab
from ._split import Split
from ._stale_lu import StaleLU


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
    "Split",
    "StaleLU",
    "Tridiagonal",
]
