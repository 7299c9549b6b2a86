"""Time steppers for any simulation, each a `diffrax.AbstractSolver`."""

from ._exponential import ETDRK2, ETDRK4, AbstractExponentialSolver
from ._runge_kutta import (
    SSPRK3,
    AbstractStiffSolver,
    KenCarp3,
    KenCarp4,
    KenCarp5,
    Kvaerno3,
    Kvaerno5,
)
from ._symplectic import (
    AbstractSymplecticSolver,
    KahanLi6,
    KahanLi8,
    Leapfrog,
    Yoshida4,
    Yoshida6,
    Yoshida8,
)


__all__ = [
    "ETDRK2",
    "ETDRK4",
    "SSPRK3",
    "AbstractExponentialSolver",
    "AbstractStiffSolver",
    "AbstractSymplecticSolver",
    "KahanLi6",
    "KahanLi8",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
    "Leapfrog",
    "Yoshida4",
    "Yoshida6",
    "Yoshida8",
]
