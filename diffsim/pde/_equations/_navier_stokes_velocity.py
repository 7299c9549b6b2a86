"""Incompressible flow in a periodic box, by its velocity."""

from typing import Any, ClassVar

from jaxtyping import Array

from ..._types import Numbers
from ..._validation import as_floating
from .._domain import Domain
from .._fourier import FourierBasis
from .._grid import components
from ._equation import optional_coefficient, source_transform
from ._spectral_convection import (
    AbstractNavierStokes,
    max_speeds,
    momentum_convection,
    project_solenoidal,
)


class NavierStokesVelocity(AbstractNavierStokes):
    r"""Navier–Stokes equations by the velocity, in two or three dimensions, periodic:

    $$\partial_t u + u\cdot\nabla u = -\nabla p + \nu\nabla^2 u - \mu u + f, \qquad
      \nabla\cdot u = 0$$

    The field is the velocity, one channel an axis; what diverges in the initial field
    is projected out, and so is what diverges in f.

    ```python
    def taylor_green(x):
        u = jnp.sin(x[0]) * jnp.cos(x[1]) * jnp.cos(x[2])
        v = -jnp.cos(x[0]) * jnp.sin(x[1]) * jnp.cos(x[2])
        return jnp.stack([u, v, 0 * u])

    box = pde.Grid((16, 16, 16), 0.0, 2 * np.pi)
    flow = pde.Evolution(pde.NavierStokesVelocity(0.1), taylor_green, box)
    run = ds.simulate(flow, [0.0, 2.0], ds.Method(integrators.ETDRK2(), step=0.05))
    pde.energy(flow, run.states)  # π³ at first
    ```

    **Arguments**

    - `viscosity`: ν, length² / time.
    - `forcing`: f, length / time²: a number, a field or a function `f(t, x, u)` that
        returns one, x of shape (axis, *grid) and u the velocity (axis, *grid): a
        stirring, or any `eqx.Module` for what the grid does not resolve. None is
        without.
    - `drag`: μ, 1 / time, which takes energy out of the largest scales.

    **Good values:** Δx up to 2 (ν³/ε)^¼ with ε the dissipation; `ETDRK4` with steps of
    0.5 Δx / max(|u| + |v| + |w|), as `cfl_time_step` finds them, or `ETDRK2` with half
    of it, or with a tenth as for `NavierStokesVorticity`, which in two dimensions has
    one field to step instead of two.

    **Raises:** `ValueError` for a viscosity that is not positive and one dimension.
    """

    viscosity: Array
    forcing: Any
    drag: Array

    references: ClassVar[tuple[str, ...]] = ("10.1103/PhysRevLett.28.76",)

    def __init__(self, viscosity: Numbers, forcing: Any = None, *, drag: Numbers = 0.0):
        self.viscosity = as_floating("viscosity", viscosity)
        self.forcing = optional_coefficient("forcing", forcing)
        self.drag = as_floating("drag", drag)

    def channels(self, ndim: int) -> int:
        if ndim == 1:
            raise ValueError("NavierStokesVelocity has two or three dimensions, got 1")
        return ndim

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        return components("velocity", ndim)

    def project_initial_condition(self, u: Array, modes: FourierBasis) -> Array:
        return modes.ifft(project_solenoidal(modes.fft(u), modes))

    def max_advection_speed(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        return max_speeds(u, domain)

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        rate = momentum_convection(z, modes)
        if self.forcing is None:
            return rate
        force = source_transform(self.forcing, t, z, modes)
        return rate + project_solenoidal(force, modes)
