"""Incompressible flow in a periodic box."""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import real_times
from ..._parameter_selection import cast
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating
from .._fourier import FourierBasis
from ._coefficients import feed_in_modes, optional
from ._equation import AbstractSpectralEquation
from ._spectral_convection import max_speeds


_HINT = "without friction waves as short as the grid would pile up"


class NavierStokes(AbstractSpectralEquation):
    r"""$\partial_t u + u\cdot\nabla u = -\nabla p + \nu\nabla^2 u - \mu u + f$ with
    $\nabla\cdot u = 0$, periodic.

    In two dimensions the field is the vorticity $\omega = \partial_x v - \partial_y u$,
    one channel: $\partial_t\omega + u\cdot\nabla\omega = \nu\nabla^2\omega - \mu\omega
    + g$, where g = curl f. In three it is the velocity, three channels; what diverges
    in the initial field is projected out.

    **Arguments**

    - `viscosity`: ν, length² / time.
    - `forcing`: g or f: a number, a field or a function `f(t, x, u)` that returns one,
        x of shape (axis, *grid) and u the vorticity (*grid) or the velocity (3, *grid):
        a stirring, or any `eqx.Module` for what the grid does not resolve. None is
        without.
    - `drag`: μ, 1 / time, which takes energy out of the largest scales.

    **Good values:** Δx up to 2 (ν³/ε)^¼ with ε the dissipation, in two dimensions
    2 (ν³/η)^⅙ with η that of enstrophy; `ETDRK4` with steps of
    0.5 Δx / max(|u| + |v|), as `cfl_time_step` finds them, or `ETDRK2` with half of it.

    **Raises:** `ValueError` for a viscosity that is not positive and one dimension.

    **Limits:** no mean flow in two dimensions, which vorticity does not know
    (convenience).
    """

    viscosity: Array
    forcing: Any
    drag: Array

    references: ClassVar[tuple[str, ...]] = (
        "10.1103/PhysRevLett.28.76",
        "10.1016/0021-9991(83)90064-5",
    )
    coefficients: ClassVar[tuple[str, ...]] = ("forcing",)

    def __init__(self, viscosity: Numbers, forcing: Any = None, *, drag: Numbers = 0.0):
        self.viscosity = as_floating("viscosity", viscosity)
        self.forcing = optional("forcing", forcing)
        self.drag = as_floating("drag", drag)

    def positive_parameters(self):
        return (PositiveParameter("viscosity", self.viscosity, hint=_HINT),)

    def channels(self, ndim):
        if ndim == 1:
            raise ValueError("NavierStokes has two or three dimensions, got 1")
        return {2: 1, 3: 3}[ndim]

    @property
    def nonlinearity_degree(self):
        return 2

    def symbol(self, modes):
        return -self.viscosity * modes.wavenumber_squared - self.drag

    def project_initial_condition(self, u, modes):
        if modes.grid.ndim == 2:
            return u
        return modes.ifft(_solenoidal(modes.fft(u), modes))

    def max_advection_speed(self, t, u, domain):
        del t
        if domain.grid.ndim == 2:
            modes = FourierBasis(cast(domain.grid, u.dtype))
            u = modes.ifft(velocity(modes.fft(u), modes))
        return max_speeds(u, domain)

    def nonlinear(self, t, z, modes):
        flux = _planar(z, modes) if modes.grid.ndim == 2 else _spatial(z, modes)
        if self.forcing is None:
            return flux
        force = feed_in_modes(self.forcing, t, z, modes)
        return flux + (force if len(z) == 1 else _solenoidal(force, modes))


def velocity(z: Array, modes: FourierBasis) -> Array:
    """The transform of the velocity (axis, ...) of a vorticity's."""
    kx, ky = modes.wavenumbers
    stream = -modes.inverse_laplacian(z[0])
    return 1j * jnp.stack([real_times(ky, stream), real_times(-kx, stream)])


def _planar(z: Array, modes: FourierBasis) -> Array:
    """−u·∇ω by two products instead of three fields (Basdevant 1983)."""
    kx, ky = modes.wavenumbers
    u, v = _apart(modes.ifft(velocity(z, modes)))
    shear, stretch = _apart(modes.fft(jnp.concatenate([u * v, v * v - u * u])))
    return real_times(kx**2 - ky**2, shear) + real_times(kx * ky, stretch)


def _apart(fields: Array) -> Sequence[Array]:
    """Along the first axis, of which each keeps length one.

    Indices would be transposed into fields of zeros with one field in it.
    """
    return jax.lax.split(fields, len(fields) * (1,))


def _spatial(z: Array, modes: FourierBasis) -> Array:
    """−∇·(uu) by five products: pressure takes one of the squares from all three."""
    u, v, w = _apart(modes.ifft(z))
    products = [u * u - w * w, v * v - w * w, u * v, u * w, v * w]
    xx, yy, xy, xz, yz = modes.fft(jnp.concatenate(products))
    x, y, z = modes.wavenumbers
    rows = [
        real_times(x, xx) + real_times(y, xy) + real_times(z, xz),
        real_times(x, xy) + real_times(y, yy) + real_times(z, yz),
        real_times(x, xz) + real_times(y, yz),
    ]
    return _solenoidal(-1j * jnp.stack(rows), modes)


def _solenoidal(z: Array, modes: FourierBasis) -> Array:
    """Without its gradient part: z − k (k·z)/k²."""
    k = modes.wavenumbers
    over = 1 / jnp.where(modes.wavenumber_squared > 0, modes.wavenumber_squared, 1)
    first, *rest = (real_times(a * over, b) for a, b in zip(k, z, strict=True))
    along = sum(rest, start=first)
    return z - jnp.stack([real_times(a, along) for a in k])
