"""HLL with the contact: the flux for gases."""

from typing import ClassVar

import jax.numpy as jnp

from ._hll import extremes
from ._minmax import above_zero, below_zero
from ._riemann_solver import AbstractRiemannSolver


class HLLC(AbstractRiemannSolver):
    r"""Two states, left and right of the contact between the outer waves.

    $$F = F_K + s_K\,(U^*_K - U_K)$$

    with the side K that the contact moves away from. Contacts at rest stay as they are,
    which `HLL` and `Rusanov` smear.

    **Good values:** the Euler equations.

    **Raises:** `ValueError` for a law that has no contact.

    **Limits:** strong shocks along an axis of the grid may grow carbuncles
    (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01414629",)

    def flux(self, law, left, right, axis):
        if not hasattr(law, "contact_speed"):
            raise ValueError(
                f"HLLC is for laws with a contact, such as pde.Euler, got "
                f"{type(law).__name__}; take pde.HLL() or pde.Rusanov()"
            )
        slow, fast = extremes(law, left, right, axis)
        middle = law.contact_speed(left, right, axis, slow, fast)
        rightwards = middle >= 0
        w = tuple(jnp.where(rightwards, a, b) for a, b in zip(left, right, strict=True))
        outer = jnp.where(rightwards, slow, fast)
        # An outer wave that moves along with the contact takes all between with it.
        passed = jnp.where(rightwards, below_zero(slow), above_zero(fast))
        states, between = law.conserved(w), law.star_state(w, axis, outer, middle)
        return tuple(
            f + passed * (b - u)
            for f, u, b in zip(law.flux(w, axis), states, between, strict=True)
        )
