"""`Turns`: parameters on circles, of which a turn away is the same."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Turns(eqx.Module):
    """The `entries` of a vector that are on circles, and the turn they are given in."""

    begin: Float[Array, " entry"]
    length: Float[Array, " entry"]
    entries: tuple[int, ...] = eqx.field(static=True)

    def wrap(self, x: Array) -> Array:
        """The same numbers, within the turn."""
        if not self.entries:
            return x
        at = np.asarray(self.entries)
        turns = jnp.floor((x[at] - self.begin) / self.length)
        x = x.at[at].add(-turns * self.length)
        # Of a little before the turn, what is left may round to its end.
        turns = jnp.where(x[at] >= self.begin + self.length, 1, 0)
        return x.at[at].add(-turns * self.length)

    def nearest(self, x: Array, center: Array) -> Array:
        """The same numbers, within half a turn of `center`."""
        if not self.entries:
            return x
        at = np.asarray(self.entries)
        turns = jnp.round((x[at] - center[at]) / self.length)
        return x.at[at].add(-turns * self.length)

    def around(
        self, center: Array, ends: tuple[Array, Array], per_unit: Any = 1.0
    ) -> tuple[Array, Array]:
        """`ends`, lower and upper; on circles half a turn from `center`.

        Where they are coordinates, `per_unit` is how many of them a unit is.
        """
        at = np.asarray(self.entries, int)
        half = self.length / 2 * jnp.broadcast_to(per_unit, center.shape)[at]
        lower, upper = ends
        return lower.at[at].set(center[at] - half), upper.at[at].set(center[at] + half)
