"""Time steppers for any simulation, each a `diffrax.AbstractSolver`."""

from ._exponential import ETDRK2, ETDRK4, AbstractExponentialSolver
from ._runge_kutta import (
    ARS222,
    ARS443,
    SSPRK3,
    AbstractImplicitRungeKutta,
    CrankNicolson,
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
    SymmetricComposition,
    Yoshida4,
    Yoshida6,
    Yoshida8,
)


__all__ = [
    "ARS222",
    "ARS443",
    "ETDRK2",
    "ETDRK4",
    "SSPRK3",
    "AbstractExponentialSolver",
    "AbstractImplicitRungeKutta",
    "AbstractSymplecticSolver",
    "CrankNicolson",
    "KahanLi6",
    "KahanLi8",
    "KenCarp3",
    "KenCarp4",
    "KenCarp5",
    "Kvaerno3",
    "Kvaerno5",
    "Leapfrog",
    "SymmetricComposition",
    "Yoshida4",
    "Yoshida6",
    "Yoshida8",
]
