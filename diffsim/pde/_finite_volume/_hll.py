"""The flux of Harten, Lax and van Leer: two waves and what is between them."""

from typing import ClassVar

import jax.numpy as jnp

from ._minmax import above_zero, below_zero, larger, smaller
from ._riemann_solver import AbstractRiemannSolver


class HLL(AbstractRiemannSolver):
    r"""One state between the slowest and the fastest wave.

    $$F = \frac{s_R F_L - s_L F_R + s_L s_R (U_R - U_L)}{s_R - s_L}, \qquad
    s_L \le 0 \le s_R$$

    with the slowest and fastest speeds of both sides, cut at zero.

    **Good values:** systems of two waves, shallow water in one dimension above all.

    **Limits:** it smears waves between those two (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/1025002",)

    def flux(self, law, left, right, axis):
        slow, fast = extremes(law, left, right, axis)
        slow, fast = below_zero(slow), above_zero(fast)
        width = fast - slow
        # Nothing moves, and both fluxes are the same.
        share = fast / jnp.where(width > 0, width, 1)
        share = jnp.where(width > 0, share, 0.5)
        sides = (law.flux(w, axis) for w in (left, right))
        states = (law.conserved(w) for w in (left, right))
        return tuple(
            share * f_left + (1 - share) * f_right + share * slow * (u_right - u_left)
            for f_left, f_right, u_left, u_right in zip(*sides, *states, strict=True)
        )


def extremes(law, left, right, axis):
    """The slowest and the fastest speed of either side."""
    slow_left, fast_left = law.wave_speeds(left, axis)
    slow_right, fast_right = law.wave_speeds(right, axis)
    return smaller(slow_left, slow_right), larger(fast_left, fast_right)
