"""Time steppers for any simulation, each a `diffrax.AbstractSolver`."""

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
    "AbstractSymplecticSolver",
    "KahanLi6",
    "KahanLi8",
    "Leapfrog",
    "Yoshida4",
    "Yoshida6",
    "Yoshida8",
]
