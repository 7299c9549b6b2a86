"""Elliptic problems and their solvers."""

from ._base import AbstractElliptic
from ._elimination import Elimination
from ._multigrid import Multigrid
from ._preconditioned import Preconditioned
from ._problems import helmholtz, poisson
from ._transforms import Transforms


__all__ = [
    "AbstractElliptic",
    "Elimination",
    "Multigrid",
    "Preconditioned",
    "Transforms",
    "helmholtz",
    "poisson",
]
