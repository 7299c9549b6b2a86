"""The polynomial of a Gauss–Radau step."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._radau_step import first_sum, scaled_powers, weighted
from ._radau_tables import RADAU


class RadauInterpolation(diffrax.AbstractLocalInterpolation):
    """The polynomial of a step, of degree 9 in time.

    What Diffrax's own loop asks for; runs of the library step to their outputs.
    """

    t0: Any
    t1: Any
    x0: Array
    v0: Array
    h: Array
    found: tuple[Array, Array]

    def evaluate(
        self, t0: Any, t1: Any | None = None, left: bool = True
    ) -> tuple[Array, Array]:
        if t1 is not None:
            there, here = self.evaluate(t1, left=left), self.evaluate(t0, left=left)
            return jax.tree.map(jnp.subtract, there, here)
        first, nodes = self.found
        whole = self.t1 - self.t0
        s = (t0 - self.t0) / jnp.where(whole == 0, 1, whole)
        powers = scaled_powers(weighted(RADAU.powers, nodes), s)
        k = np.arange(1, 8)
        moved = first_sum(1 / ((k + 1) * (k + 2)), powers)
        sped = first_sum(1 / (k + 1), powers)
        h = self.h * s
        x = self.x0 + h * self.v0 + h * h * (first / 2 + moved)
        return x, self.v0 + h * (first + sped)
