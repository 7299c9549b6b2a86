"""`AbstractForce`: accelerations of all bodies, component first."""

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float


class AbstractForce(eqx.Module):
    """A force of the library; a user's may be any `force(t, state) -> (body, 3)`.

    Inside the integrator arrays are component first, `(3, body)`: for 5 bodies a
    leapfrog step takes a fifth of the time that `(body, 3)` takes.
    """

    #: Whether velocities enter: then no symplectic solver runs it.
    velocity_dependent: eqx.AbstractClassVar[bool]
    references: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def acceleration(
        self,
        t: Array,
        x: Float[Array, "3 body"],
        v: Float[Array, "3 body"] | None,
        gm: Float[Array, " massive"],
    ) -> Float[Array, "3 body"]:
        """Accelerations of all bodies; the first `massive` of them attract.

        **Arguments**

        - `t`: time.
        - `x`, `v`: positions and velocities; `v` is None unless `velocity_dependent`.
        - `gm`: G times the masses.
        """
