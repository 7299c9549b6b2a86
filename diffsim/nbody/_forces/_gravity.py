"""Newtonian gravity between bodies, and on massless test particles."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import array_of, finite, not_negative
from ._direct_sum import field_sum, mutual_sum
from ._force import AbstractForce
from ._unit_length import inverse_unit


class Gravity(AbstractForce):
    r"""Newton's law with Plummer softening.

    $$a_i = \sum_{j \ne i}
      \frac{G m_j\,(x_j - x_i)}{(|x_j - x_i|^2 + \epsilon^2)^{3/2}}$$

    ```python
    bodies = problems.outer_solar_system().bodies
    nbody.NBody(bodies, nbody.Gravity(G=nbody.G["au, Msun, yr/2pi"]))
    nbody.NBody(bodies, nbody.Gravity(softening=0.05))  # as in a cluster of stars
    ```

    **Arguments**

    - `G`: gravitational constant in your units, see `nbody.G`; scalar.
    - `softening`: ε, a length; scalar. 0 is exact gravity.

    **Good values:** ε = 0 for planets; for star clusters and galaxies about the mean
    separation in the densest region.

    **Limits:** direct summation, O(massive × body) (mathematics of exactness). Without
    softening, coincident bodies give a state that is not finite, and the run says so.

    **Raises:** `ValueError` for numbers that are not finite, and a negative ε.

    Masses and G enter only as their product: free one of them, not both.
    """

    G: Array
    softening: Array

    velocity_dependent: ClassVar[bool] = False
    references: ClassVar[tuple[str, ...]] = ("10.1093/mnras/71.5.460",)

    def __init__(self, G: Numbers = 1.0, softening: Numbers = 0.0):
        self.G = finite("G", array_of("G", G, (), "nbody.G has it by units"))
        length = finite("softening", array_of("softening", softening, ()))
        self.softening = not_negative("softening", length, "it is a length")

    def acceleration(self, t: Any, x: Array, v: Array | None, gm: Array) -> Array:
        del t, v
        softening = self.softening.astype(x.dtype)
        s = inverse_unit(x, softening)
        x, gm, eps2 = s * x, s * gm, jnp.square(s * softening)
        massive = x[:, : gm.size]
        mutual = mutual_sum(massive, gm, eps2)
        if x.shape[1] == gm.size:
            return s * mutual
        test_particles = field_sum(x[:, gm.size :], massive, gm, eps2)
        return s * jnp.concatenate([mutual, test_particles], axis=1)
