"""Time steppers for any simulation, each a `diffrax.AbstractSolver`."""

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
    "SSPRK3",
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
