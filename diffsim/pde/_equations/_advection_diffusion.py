"""Advection with diffusion and reaction."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import Numbers
from ..._validation import (
    PositiveParameter,
    as_floating,
    function_of,
    one_of,
    or_default,
)
from ...integrators import SSPRK3
from ...simulations import Method
from .._domain import Domain
from .._finite_volume import (
    FACE_MEANS,
    MUSCL,
    AbstractReconstruction,
    advection,
    diffusion_term_of_order,
    diffusive_courant_rate,
    validate_velocity,
)
from .._time_step import CFL
from ._equation import (
    AbstractFiniteVolumeEquation,
    add_source,
    diffusivity_coefficient,
    diffusivity_on_faces,
    optional_coefficient,
    positive_diffusivities,
)


class AdvectionDiffusion(AbstractFiniteVolumeEquation):
    r"""Advection–diffusion equation with a source.

    $$\partial_t u + \nabla\cdot(\mathbf v\,u) = \nabla\cdot(D\,\nabla u) + s$$

    ```python
    plane = pde.Grid((60, 30), (0.0, -0.5), (2.0, 0.5))
    x, y = plane.centers
    chimney = jnp.exp(-(((x - 0.2) ** 2 + y**2) / 0.002))
    law = pde.AdvectionDiffusion(0.005, velocity=(1.0, 0.0), source=chimney)
    walls = (pde.Inflow(0.0), pde.Outflow()), pde.Neumann()
    plume = pde.Evolution(law, jnp.zeros((60, 30)), plane, walls)
    ds.simulate(plume, 3.0).states
    ```

    **Arguments**

    - `diffusivity`: D ≥ 0, length² / time, as of `Diffusion`. None is without, in 4 to
        20 % less time than 0 takes.
    - `velocity`: v, length / time: a number, one an axis, a field of shape (axis,
        *grid), a tuple of fields on the faces across each axis, or a function `v(t, x)`
        that returns any of these, x of shape (axis, *grid); a tuple of fields of the
        shape of the grid is one field then.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`, a
        reaction, any `eqx.Module` called so, such as one with a network. None is none.
    - `scheme`: interpolates u to faces; None is `MUSCL()`.
    - `face_mean`: of D, as of `Diffusion`.

    **Good values:** fewer than 2 D/|v| for Δx resolve every layer, and then any scheme
    does. `Dirichlet` where the flow enters, or `Inflow` where what comes in jumps, and
    `Outflow` where it leaves; Dirichlet boundaries at outlets make layers of a width of
    D/|v|.

    **Raises:** `ValueError` for a negative D and a velocity of another shape.

    **Limits:** one channel (convenience). Explicit in time by default: for much
    diffusion take `integrators.Kvaerno5` (convenience). Diffusion has order 4 where D
    is a number and the scheme has more than 2, else 2.
    """

    diffusivity: Any
    velocity: Any
    source: Any
    scheme: AbstractReconstruction
    face_mean: str | None = eqx.field(static=True)

    coefficients: ClassVar[tuple[str, ...]] = ("diffusivity", "source")

    def __init__(
        self,
        diffusivity: Numbers | Any | None,
        velocity: Numbers | Any,
        *,
        source: Numbers | Any = None,
        scheme: AbstractReconstruction | None = None,
        face_mean: str | None = None,
    ):
        self.diffusivity = diffusivity
        if diffusivity is not None:
            self.diffusivity = diffusivity_coefficient("diffusivity", diffusivity)
        self.face_mean = one_of("face_mean", face_mean, (None, *FACE_MEANS))
        self.velocity = _validate_velocity(velocity)
        self.source = optional_coefficient("source", source)
        self.scheme = or_default(
            "scheme", scheme, AbstractReconstruction, default=MUSCL()
        )

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivity", self.diffusivity, zero=True)

    def channels(self, ndim: int) -> int:
        del ndim
        return 1

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        x = domain.grid.centers.astype(u.dtype)
        velocity = self._velocity_at(t, x, domain)
        rate = advection(u, velocity, domain, t, scheme=self.scheme)
        if self.diffusivity is not None:
            D = diffusivity_on_faces(self.diffusivity, self.face_mean, t, u[0], domain)
            rate = rate + diffusion_term_of_order(D, self.scheme.order, t, u, domain)
        return add_source(rate, self.source, t, x, u)

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        spacing = domain.grid.spacing.astype(u.dtype)
        x = domain.grid.centers.astype(u.dtype)
        velocity = self._velocity_at(t, x, domain)
        if isinstance(velocity, tuple):
            fastest = jnp.stack([jnp.max(jnp.abs(v)) for v in velocity])
        elif velocity.ndim <= 1:
            fastest = jnp.broadcast_to(jnp.abs(velocity), spacing.shape)
        else:
            fastest = jnp.max(jnp.abs(velocity), range(1, velocity.ndim))
        fastest = jnp.broadcast_to(fastest.astype(u.dtype), spacing.shape)
        rate = jnp.sum(fastest / spacing)
        if self.diffusivity is None:
            return rate
        D = diffusivity_on_faces(self.diffusivity, self.face_mean, t, u[0], domain)
        return rate + diffusive_courant_rate(D, domain, u.dtype)

    def check(self, u: Array, domain: Domain) -> None:
        if not callable(self.velocity):
            validate_velocity(self.velocity, domain)

    def default_method(self, domain: Domain) -> Method:
        del domain
        return Method(SSPRK3(), controller=CFL())

    def _velocity_at(
        self, t: Any, x: Array, domain: Domain
    ) -> Array | tuple[Array, ...]:
        if not callable(self.velocity):
            return self.velocity
        with explain_tracer_errors("velocity"):
            velocity = self.velocity(t, x)
        velocity = _validate_velocity(velocity)
        # x are the centers of cells; a tuple from outside could mean faces.
        if isinstance(velocity, tuple) and all(
            v.shape == x.shape[1:] for v in velocity
        ):
            velocity = jnp.stack(velocity)
        return validate_velocity(velocity, domain)


def _validate_velocity(velocity: Any) -> Array | tuple[Array, ...] | Callable:
    """Validate a function, an array, or a tuple of arrays on faces."""
    if callable(velocity):
        return function_of("velocity", velocity, ("t", "x"))
    if isinstance(velocity, tuple | list) and any(jnp.ndim(v) for v in velocity):
        return tuple(as_floating("velocity", v) for v in velocity)
    return as_floating("velocity", velocity)
