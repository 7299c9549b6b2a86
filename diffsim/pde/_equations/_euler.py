"""The Euler equations of gas dynamics."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import (
    PositiveParameter,
    as_floating,
    compile_time_eval,
    is_traced,
    or_default,
    positive,
    promote_to_common_dtype,
)
from .._domain import Domain
from .._finite_volume import (
    HLLC,
    MUSCL,
    AbstractReconstruction,
    AbstractRiemannSolver,
    Channels,
)
from .._grid import components
from ._conservation_law import (
    AbstractConservationLaw,
    courant_rate_of_law,
    flux_divergence,
)
from ._equation import add_source, evaluate_coefficient, optional_coefficient
from ._hydrostatic import hydrostatic_rate


class Euler(AbstractConservationLaw):
    r"""Euler equations of gas dynamics: shocks, rarefactions, contacts.

    $$\partial_t\begin{pmatrix}\rho\\ \rho\mathbf v\\ E\end{pmatrix} +
    \nabla\cdot\begin{pmatrix}\rho\mathbf v\\ \rho\mathbf v\mathbf v + p\\
    (E + p)\mathbf v\end{pmatrix} = 0, \qquad
    p = (\gamma - 1)\bigl(E - \tfrac12\rho v^2\bigr)$$

    Channels are density, momentum along each axis and energy, per volume. Fields in
    density, velocity and pressure are turned into them, and back:

    ```python
    grid, gas = pde.Grid(200), pde.Euler(1.4)
    left = grid.centers[0] < 0.5
    rho, v, p = jnp.where(left, 1.0, 0.125), 0.0, jnp.where(left, 1.0, 0.1)  # Sod's
    tube = pde.Evolution(gas, gas.state(rho, v, p), grid, pde.Outflow())
    rho, v, p = gas.fields(ds.simulate(tube, 0.2).states)
    ```

    **Arguments**

    - `gamma`: ratio of specific heats, above 1.
    - `gravity`: acceleration, one number an axis, (0.0, -9.81) for instance; or a
        function `φ(t, x)` that returns the potential, x of shape (axis, ...). None is
        without.
    - `source`: what is added to the rates: an array that broadcasts to (channel,
        *grid) or a function `s(t, x, u)` that returns one, u of that shape: heating,
        for instance; weight is better given as `gravity`. None is without.
    - `scheme`: interpolates density, velocity and pressure to faces; None is `MUSCL()`.
    - `riemann_solver`: the flux between both sides; None is `HLLC()`.
    - `positivity_limiter`: whether density and pressure on faces keep at least a tenth
        of those in their cells, and fluxes are corrected to a high order only as far
        as pressures bear it. Smooth flow is not limited, nothing is lost or made, and
        derivatives are those of either side where the limiter sets in.

    **Good values:** 1.4 for air; MUSCL for shocks, WENO5 for smooth flow and many
    vortices. `ReflectingWall` reflects, `Outflow` lets waves out, and `Inflow` sets
    what comes in: boundaries are for density, velocity along each axis and pressure.

    With gravity an atmosphere of one temperature is at rest to rounding between walls
    and at `Outflow`, to order 1 beside `Inflow`, others to order 2, and the sum of
    `energy`, $E + \rho\varphi$, is constant between walls.

    **Raises:** `ValueError` for γ ≤ 1, for a gravity that does not fit the axes or
    points along a periodic one, and for a start, or a wall that holds one, without
    positive density and pressure.

    **Limits:** of order 2 with gravity, in every scheme (convenience); gas whose scale
    height is shorter than a cell falls as it should and is not balanced (mathematics).
    Density and pressure stay positive at steps of `pde.CFL(0.5)`, as measured and not
    proven, in strong blast waves and near vacua; a run that loses them ends in
    `RESULTS.positivity_lost` (mathematics of longer steps). Derivatives at shocks, and
    of gas at rest: see `MUSCL`.
    """

    gamma: Array
    gravity: Any
    source: Any
    scheme: AbstractReconstruction
    riemann_solver: AbstractRiemannSolver
    positivity_limiter: bool = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = (
        "10.1007/b79761",
        "10.1016/j.jcp.2010.08.016",
        "10.1137/140984373",
    )
    positive_fields: ClassVar[tuple[str, ...]] = ("density", "pressure")
    positive_channels: ClassVar[tuple[int, ...]] = (0, -1)
    coefficients: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(
        self,
        gamma: Numbers = 1.4,
        *,
        gravity: Numbers | Any = None,
        source: Numbers | Any = None,
        scheme: AbstractReconstruction | None = None,
        riemann_solver: AbstractRiemannSolver | None = None,
        positivity_limiter: bool = True,
    ):
        self.gamma = as_floating("gamma", gamma)
        self.gravity = optional_coefficient("gravity", gravity, ("t", "x"))
        self.source = optional_coefficient("source", source)
        self.scheme = or_default(
            "scheme", scheme, AbstractReconstruction, default=MUSCL()
        )
        self.riemann_solver = or_default(
            "riemann_solver", riemann_solver, AbstractRiemannSolver, default=HLLC()
        )
        self.positivity_limiter = bool(positivity_limiter)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return (
            PositiveParameter(
                "gamma - 1", self.gamma - 1, hint="gamma is above 1, 1.4 for air"
            ),
        )

    def channels(self, ndim: int) -> int:
        return ndim + 2

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        return "density", *components("momentum", ndim), "energy"

    def state(self, density: Numbers, velocity: Numbers, pressure: Numbers) -> Array:
        """Conserved channels; `velocity` has shape (axis, *grid), or is a number.

        Density and pressure are fields or numbers; one of the three is a field.
        """
        w = promote_to_common_dtype(
            density=density, velocity=velocity, pressure=pressure
        )
        density, velocity, pressure = w
        shape = jnp.broadcast_shapes(density.shape, pressure.shape)
        if shape and not velocity.ndim:
            velocity = jnp.broadcast_to(velocity, (len(shape), *shape))
        shape = velocity.shape[1:]
        if velocity.ndim < 2 or len(velocity) != len(shape):
            raise ValueError(
                "velocity must have shape (axis, *grid), one component an axis, got "
                f"{velocity.shape}; in one dimension, velocity[None]"
            )
        density, pressure = (jnp.broadcast_to(a, shape) for a in (density, pressure))
        return jnp.stack(self.conserved((density, *velocity, pressure)))

    def fields(self, u: Array) -> tuple[Array, Array, Array]:
        """Density, velocity, shape (axis, *grid), and pressure of conserved u.

        Of one state, shape (channel, *grid); `jax.vmap(gas.fields)` takes many. Their
        shape alone does not say: four states of a line, (4, 3, 16), are one of a plane.
        """
        if len(u) != u.ndim + 1:
            raise ValueError(
                "u must be one state, shape (channel, *grid) with a channel for "
                f"density, each axis and energy, got shape {u.shape}; "
                "jax.vmap(gas.fields) takes a leading axis of time"
            )
        density, *velocity, pressure = self.primitive(tuple(u))
        return density, jnp.stack(velocity), pressure

    def primitive(self, u: Channels) -> Channels:
        density, *momentum, energy = u
        velocity = [m / density for m in momentum]
        kinetic = sum(m * v for m, v in zip(momentum, velocity, strict=True)) / 2
        return (density, *velocity, (self._gamma(density) - 1) * (energy - kinetic))

    def conserved(self, w: Channels) -> Channels:
        density, *velocity, pressure = w
        kinetic = density * sum(v**2 for v in velocity) / 2
        energy = pressure / (self._gamma(density) - 1) + kinetic
        return (density, *(density * v for v in velocity), energy)

    def flux(self, w: Channels, axis: int) -> Channels:
        pressure, normal = w[-1], w[1 + axis]
        mass, *momentum, energy = (normal * u for u in self.conserved(w))
        momentum[axis] = momentum[axis] + pressure
        return (mass, *momentum, energy + normal * pressure)

    def wave_speeds(self, w: Channels, axis: int) -> tuple[Array, Array]:
        sound = jnp.sqrt(self._gamma(w[0]) * w[-1] / w[0])
        return w[1 + axis] - sound, w[1 + axis] + sound

    def contact_speed(
        self, left: Channels, right: Channels, axis: int, slow: Array, fast: Array
    ) -> Array:
        """The speed of the contact between the waves `slow` and `fast` (HLLC)."""
        at_left = left[0] * (slow - left[1 + axis])
        at_right = right[0] * (fast - right[1 + axis])
        pushed = right[-1] - left[-1]
        pushed = pushed + left[1 + axis] * at_left - right[1 + axis] * at_right
        return pushed / (at_left - at_right)

    def star_state(
        self, w: Channels, axis: int, wave: Array, contact: Array
    ) -> Channels:
        """Conserved channels between `wave` and `contact_speed` (HLLC)."""
        normal, pressure = w[1 + axis], w[-1]
        density = w[0] * (wave - normal) / (wave - contact)
        momentum = [density * v for v in w[1:-1]]
        momentum[axis] = density * contact
        energy = self.conserved(w)[-1] / w[0] + (contact - normal) * (
            contact + pressure / (w[0] * (wave - normal))
        )
        return (density, *momentum, density * energy)

    def odd_channels(self, axis: int) -> tuple[int, ...]:
        return (1 + axis,)

    def positive(self, u: Array) -> tuple[Array, ...]:
        density, *_, pressure = self.primitive(tuple(u))
        return density, pressure

    @property
    def limited_channels(self) -> tuple[int, ...]:
        return self.positive_channels if self.positivity_limiter else ()

    def correction_share(
        self, change: Channels, left: Channels, right: Channels, axis: int
    ) -> Array | None:
        """1/(1 + q): q is 1 where fluxes change by a tenth of what the cells hold.

        Momentum beside p, mass beside ρa and heat beside pa, with a² = p/ρ. Where
        fields are smooth q is of order 4, so that the order stays.
        """
        del axis
        if not self.positivity_limiter:
            return None
        density, per_pressure = left[0] + right[0], 1 / (left[-1] + right[-1])
        square = (left[-1] + right[-1]) / density
        velocity = [(a + b) / 2 for a, b in zip(left[1:-1], right[1:-1], strict=True)]
        mass, *momentum, energy = (c * per_pressure for c in change)
        pushed = [m - v * mass for m, v in zip(momentum, velocity, strict=True)]
        pairs = zip(momentum, pushed, velocity, strict=True)
        heat = energy - sum(v * (m + p) for m, p, v in pairs) / 2
        changed = mass**2 * square + sum(p**2 for p in pushed)
        changed = changed + heat**2 * density * per_pressure
        borne = 0.01 * (left[-1] * per_pressure) * (right[-1] * per_pressure)
        return borne / (borne + changed)

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        if self.gravity is None:
            return u[-1]
        return u[-1] + u[0] * self.potential(t, domain.grid.centers.astype(u.dtype))

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        return courant_rate_of_law(self, self.primitive(tuple(u)), domain)

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        if self.gravity is None:
            rate = flux_divergence(self, u, domain, t)
        else:
            rate = hydrostatic_rate(self, self.potential, t, u, domain)
        return add_source(rate, self.source, t, domain.grid.centers, u)

    def potential(self, t: Any, x: Array) -> Array:
        """Gravitational potential φ at the places x, shape (axis, ...)."""
        if callable(self.gravity):
            potential = evaluate_coefficient("gravity", self.gravity, t, x)
            return jnp.broadcast_to(potential, x.shape[1:])
        g = self.gravity.astype(x.dtype).reshape(-1)
        return -jnp.sum(g.reshape(-1, *[1] * (x.ndim - 1)) * x, 0)

    def check(self, u: Array, domain: Domain) -> None:
        self._check_gravity(domain)
        if is_traced(u) or is_traced(self.gamma):
            return
        with compile_time_eval():
            density, _, pressure = self.fields(u)
        hint = "Euler.state(density, velocity, pressure) makes the channels"
        positive("initial density", density, hint)
        positive("initial pressure", pressure, hint)

    def _check_gravity(self, domain: Domain):
        g, ndim = self.gravity, domain.grid.ndim
        if g is None or callable(g):
            return
        if g.shape != (ndim,) and (g.shape or ndim > 1):
            raise ValueError(
                f"gravity must be one number an axis, shape ({ndim},), or a function "
                f"of (t, x) that returns the potential, got shape {g.shape}"
            )
        components_of_g = () if is_traced(g) else np.asarray(g).reshape(-1)
        if any(a and domain.periodic(axis) for axis, a in enumerate(components_of_g)):
            raise ValueError(
                f"gravity must be 0 along a periodic axis, got {g}; between "
                "pde.ReflectingWall() a gas can rest"
            )

    def _gamma(self, like: Array) -> Array:
        return self.gamma.astype(like.dtype)
