"""The wave equation."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import Numbers, PyTree
from ..._validation import PositiveParameter, one_of
from ...simulations import AbstractSplitFlows, Method, Separable, SplitFlows
from .._boundaries import AbstractGhostCellBoundary, Neumann, Robin
from .._domain import Domain
from .._finite_volume import (
    FACE_MEANS,
    diffusion_flux_divergence,
    values_on_faces,
)
from .._time_step import LinearizedModes
from ._equation import (
    AbstractSecondOrderInTime,
    add_source,
    coefficient,
    coefficient_values,
    optional_coefficient,
)


class Wave(AbstractSecondOrderInTime):
    r"""Wave equation, of sound, light, strings and membranes:

    $$\partial_t^2 u = \nabla\cdot(c^2\,\nabla u) - \sigma\,\partial_t u + s$$

    Two channels, u and $\partial_t u$; the boundaries are those of u. Without σ and s
    its `energy`, $\tfrac12\int (\partial_t u)^2 + c^2|\nabla u|^2$, stays, and
    `Leapfrog` keeps it within bounds forever. Where c jumps,
    $(c_1 - c_2)/(c_1 + c_2)$ of a wave returns.

    ```python
    def plucked(x):
        u = jnp.sin(np.pi * x[0])
        return jnp.stack([u, 0 * u])  # from rest

    string = pde.Evolution(pde.Wave(1.0), plucked, pde.Grid(64), pde.Dirichlet())
    run = ds.simulate(string, [0.5, 1.0, 2.0], ds.Method(integrators.Leapfrog(), 0.01))
    run["u"]  # sin πx cos πt
    ```

    **Arguments**

    - `speed`: c, length / time: a number, a field of the shape of the grid or a
        function `c(x)`, x of shape (axis, *grid).
    - `damping`: σ, 1 / time, of the same kinds; `absorbing_layer` makes one that lets
        waves leave. None is without.
    - `source`: s, field / time²: a number, a field or a function `s(t, x, u)`, u of
        shape (*grid): −sin u makes it the equation of Josephson junctions. None is
        without.
    - `face_mean`: of c² in both cells beside a face, as of `pde.diffusion`.

    **Good values:** `Leapfrog` or its compositions with steps up to
    $(c^2\sum_a \Delta x_a^{-2})^{-1/2}$ at the largest c, beyond which they blow up;
    20 cells a wavelength, whose phase is then 0.4 % slow. A step just below the bound
    is the most accurate one of `Leapfrog`. By default Dopri8 chooses its steps.

    **Raises:** `ValueError` for a speed that is not positive, and a negative damping.

    **Limits:** `Outflow` and `Neumann` boundaries reflect: waves leave through a
    damping layer (convenience). A jump of c within a cell or at an angle to the faces
    costs one order there (convenience). Dirichlet boundaries send out ripples of a
    cell's length, which make derivatives by c of order 1.5 (convenience).
    """

    speed: Any
    damping: Any
    source: Any
    face_mean: str = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01448839",)
    coefficients: ClassVar[tuple[str, ...]] = ("speed", "damping", "source")

    def __init__(
        self,
        speed: Numbers | Any,
        damping: Numbers | Any = None,
        *,
        source: Numbers | Any = None,
        face_mean: str = "harmonic",
    ):
        self.face_mean = one_of("face_mean", face_mean, FACE_MEANS)
        self.speed = coefficient("speed", speed, ("x",))
        self.damping = optional_coefficient("damping", damping, ("x",))
        self.source = optional_coefficient("source", source)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return (
            PositiveParameter(
                "speed", self.speed, hint="waves of speed zero stand still"
            ),
            PositiveParameter(
                "damping", self.damping, zero=True, hint="waves grow without bound"
            ),
        )

    def channels(self, ndim: int) -> int:
        del ndim
        return 2

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        del ndim
        return "u", "u_t"

    def flows(self, domain: Domain, dtype: Any) -> AbstractSplitFlows:
        # Evaluated once a run, not in every step of it and of its derivative.
        squared = self._squared_speed(domain, dtype)
        kick = eqx.Partial(_acceleration, self.source, domain, squared)
        if self.damping is None:
            return Separable(_velocity, kick)
        damping = _evaluate_on_grid("damping", self.damping, domain, dtype)
        return SplitFlows(_drift, eqx.Partial(_kick, kick, damping))

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        c = jnp.max(_evaluate_on_grid("speed", self.speed, domain, u.dtype))
        return c * jnp.sqrt(jnp.sum(domain.grid.spacing.astype(u.dtype) ** -2))

    def waves(self, t: Any, u: Array, domain: Domain) -> LinearizedModes:
        part = jnp.linspace(0, 1, 65, dtype=u.dtype)
        turning = 2 * self.courant_rate(t, u, domain) * part
        damping = 0 if self.damping is None else self.damping
        damping = _evaluate_on_grid("damping", damping, domain, u.dtype)
        return LinearizedModes(-jnp.max(damping) * jnp.ones_like(part), turning)

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        # A pull that grows with u counts half, one that boundaries exert wholly.
        squared = self._squared_speed(domain, u.dtype)
        place, speed = jnp.split(u, 2)
        pull = diffusion_flux_divergence(
            place, squared, domain, t
        ) + diffusion_flux_divergence(0 * place, squared, domain, t)
        boundary_energy = _boundary_energy(squared, domain, t)
        return ((speed**2 - place * pull) / 2 + boundary_energy)[0]

    def default_method(self, domain: Domain) -> Method:
        del domain
        return Method(diffrax.Dopri8())

    def _squared_speed(self, domain: Domain, dtype: Any) -> list[Array]:
        speed = _evaluate_on_grid("speed", self.speed, domain, dtype)
        return values_on_faces(speed**2, domain, dtype, self.face_mean)


def _velocity(t: Any, v: Array, args: Any) -> Array:
    del t, args
    return v


def _acceleration(
    source: Any, domain: Domain, squared: list[Array], t: Any, u: Array, args: Any
) -> Array:
    """∇·(c²∇u) + s, c² on faces."""
    del args
    pull = diffusion_flux_divergence(u, squared, domain, t)
    return add_source(pull, source, t, domain.grid.centers, u)


def _drift(t: Any, y: PyTree[Array], length: Array, args: Any) -> PyTree[Array]:
    del t, args
    u, v = y
    return u + length * v, v


def _kick(
    kick: Any, damping: Array, t: Any, y: PyTree[Array], length: Array, args: Any
) -> PyTree[Array]:
    r"""The flow of $v' = a - \sigma v$ at u that stands still: exact, as σ is stiff."""
    u, v = y
    decay = -length * damping
    return u, jnp.exp(decay) * v + length * _mean_decay(decay) * kick(t, u, args)


def _mean_decay(z: Array) -> Array:
    """(eᶻ − 1)/z."""
    # The series serves where the derivative of the quotient cancels.
    small = jnp.abs(z) < 1e-2
    far = jnp.where(small, 1, z)
    near = jnp.where(small, z, 0)
    series = 1 + near / 2 * (1 + near / 3 * (1 + near / 4 * (1 + near / 5)))
    series = series + near**5 / 720
    return jnp.where(small, series, jnp.expm1(far) / far)


def _evaluate_on_grid(name: str, value: Any, domain: Domain, dtype: Any) -> Array:
    x = domain.grid.centers.astype(dtype)
    if callable(value):
        with explain_tracer_errors(name):
            value = value(x)
    return coefficient_values(name, value, x)


def _boundary_energy(squared: list[Array], domain: Domain, t: Any) -> Array:
    r"""Boundary part of $\tfrac12 c^2|\nabla u|^2$, none where u = 0, (1, *grid).

    With the part that grows with u, which is work against ∇·(c²∇u), it is a square: of
    the slope to the boundary value. c² is on faces.
    """
    dtype = squared[0].dtype
    spacing = domain.grid.spacing.astype(dtype)
    total = jnp.zeros((1, *domain.grid.shape), dtype)
    for axis, pair in enumerate(domain.boundary_pairs):
        for end, side in enumerate(pair or ()):
            wall = domain.grid.wall(axis, end).astype(dtype)
            value = side.at(jnp.asarray(t, dtype), wall)
            energy = _boundary_stiffness(side, spacing[axis]) * value**2
            place = [slice(None)] * total.ndim
            place[axis + 1] = slice(-1, None) if end else slice(1)
            c2 = squared[axis]
            c2 = c2[tuple(place[1:])] if c2.ndim == domain.grid.ndim else c2
            total = total.at[tuple(place)].add(c2 * energy / spacing[axis] ** 2)
    return total


def _boundary_stiffness(side: AbstractGhostCellBoundary, dx: Array) -> Array:
    """Energy a volume of a boundary value of one with c = 1, times Δx²."""
    rule = side.ghosts(dx, 1, 2)
    interior, boundary = rule.interior_weights[..., 0, 0], rule.boundary_weight[0]
    if isinstance(side, Neumann | Robin):
        # A spring, or a steady pull, at what the line to the boundary is there.
        beta = side.beta.astype(dx.dtype) if isinstance(side, Robin) else 1
        free = beta == 0
        spring = -boundary * dx / (4 * jnp.where(free, 1, beta))
        return jnp.where(free, _square(interior, boundary), spring)
    return _square(interior, boundary)


def _square(interior: Array, boundary: Array) -> Array:
    # Where the ghost is the cell nothing is stretched.
    even = interior == 1
    return jnp.where(even, 0, boundary**2 / (2 * jnp.where(even, 1, 1 - interior)))
