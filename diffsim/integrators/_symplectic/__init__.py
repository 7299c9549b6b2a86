"""Symmetric compositions of leapfrog."""

from ._kahan_li import KahanLi6, KahanLi8
from ._leapfrog import Leapfrog
from ._symmetric_composition import SymmetricComposition
from ._symplectic_solver import AbstractSymplecticSolver
from ._yoshida import Yoshida4, Yoshida6, Yoshida8


__all__ = [
    "AbstractSymplecticSolver",
    "KahanLi6",
    "KahanLi8",
    "Leapfrog",
    "SymmetricComposition",
    "Yoshida4",
    "Yoshida6",
    "Yoshida8",
]
