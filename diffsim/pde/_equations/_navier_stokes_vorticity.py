"""Incompressible flow in a periodic plane, by its vorticity."""

from typing import Any, ClassVar

from jaxtyping import Array

from ..._parameter_selection import cast
from ..._types import Numbers
from ..._validation import as_floating
from .._domain import Domain
from .._fourier import FourierBasis
from ._equation import add_source_transform, optional_coefficient
from ._spectral_convection import (
    AbstractNavierStokes,
    max_speeds,
    velocity_of_vorticity,
    vorticity_convection,
)


class NavierStokesVorticity(AbstractNavierStokes):
    r"""Navier–Stokes equations by the vorticity, in two dimensions, periodic:

    $$\partial_t\omega + u\cdot\nabla\omega = \nu\nabla^2\omega - \mu\omega + g, \qquad
      \nabla\cdot u = 0$$

    The field is the vorticity $\omega = \partial_x v - \partial_y u$ of a velocity of
    mean zero, one channel: `pde.curl` makes it of a velocity, `pde.velocity` the
    velocity of it.

    ```python
    def layers(x):  # two shear layers, and a wave that they roll up in
        layer = jnp.cosh(2 * jnp.cos(x[1])) ** -2.0 * jnp.sin(x[1])
        return 4 * layer + 0.2 * jnp.cos(x[0])

    torus = pde.Grid((64, 64), 0.0, 2 * np.pi)
    flow = pde.Evolution(pde.NavierStokesVorticity(5e-3), layers, torus)
    method = ds.Method(integrators.ETDRK4(), step=0.04)
    run = ds.simulate(flow, [0.0, 10.0], method)
    pde.velocity(flow, run.states)  # (time, axis, x, y)
    ```

    **Arguments**

    - `viscosity`: ν, length² / time.
    - `forcing`: g = curl f, of a force f: a number, a field or a function `g(t, x, u)`
        that returns one, x of shape (axis, *grid) and u the vorticity (*grid): a
        stirring, or any `eqx.Module` for what the grid does not resolve. None is
        without.
    - `drag`: μ, 1 / time, which takes energy out of the largest scales.

    **Good values:** Δx up to 2 (ν³/η)^⅙ with η the dissipation of enstrophy; `ETDRK4`
    with steps of 0.5 Δx / max(|u| + |v|), as `cfl_time_step` finds them, or `ETDRK2`
    with half of it, and without much viscosity over 10⁵ steps a tenth: short waves that
    nothing damps grow in it.

    **Raises:** `ValueError` for a viscosity that is not positive and other than two
    dimensions.

    **Limits:** no mean flow, which vorticity does not know (convenience:
    `NavierStokesVelocity` has one).
    """

    viscosity: Array
    forcing: Any
    drag: Array

    references: ClassVar[tuple[str, ...]] = ("10.1016/0021-9991(83)90064-5",)

    def __init__(self, viscosity: Numbers, forcing: Any = None, *, drag: Numbers = 0.0):
        self.viscosity = as_floating("viscosity", viscosity)
        self.forcing = optional_coefficient("forcing", forcing)
        self.drag = as_floating("drag", drag)

    def channels(self, ndim: int) -> int:
        if ndim != 2:
            raise ValueError(
                f"NavierStokesVorticity has two dimensions, got {ndim}; in three take "
                "NavierStokesVelocity"
            )
        return 1

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        del ndim
        return ("vorticity",)

    def max_advection_speed(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        modes = FourierBasis(cast(domain.grid, u.dtype))
        u = modes.ifft(velocity_of_vorticity(modes.fft(u), modes))
        return max_speeds(u, domain)

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        rate = vorticity_convection(z, modes)
        return add_source_transform(rate, self.forcing, t, z, modes)
