"""Rusanov's flux: local Lax–Friedrichs."""

from functools import reduce
from typing import ClassVar

import jax.numpy as jnp

from ._minmax import larger
from ._riemann_solver import AbstractRiemannSolver


class Rusanov(AbstractRiemannSolver):
    r"""$\tfrac12(F_L + F_R) - \tfrac12 s\,(U_R - U_L)$, s the fastest of all speeds.

    **Good values:** a law of one equation, and any where robustness counts most.

    **Limits:** it smears waves slower than the fastest, contacts above all
    (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1007/b79761",)

    def flux(self, law, left, right, axis):
        speeds = (*law.wave_speeds(left, axis), *law.wave_speeds(right, axis))
        fastest = reduce(larger, [jnp.abs(s) for s in speeds])
        sides = (law.flux(w, axis) for w in (left, right))
        states = (law.conserved(w) for w in (left, right))
        return tuple(
            (f_left + f_right - fastest * (u_right - u_left)) / 2
            for f_left, f_right, u_left, u_right in zip(*sides, *states, strict=True)
        )
