"""Convective terms in Fourier space, and `AbstractNavierStokes`, which has them."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import real_times
from ..._validation import PositiveParameter
from .._domain import Domain
from .._fourier import FourierBasis
from ._equation import AbstractSpectralEquation


class AbstractNavierStokes(AbstractSpectralEquation):
    r"""Navier–Stokes equations in a periodic box, by vorticity or velocity."""

    viscosity: eqx.AbstractVar[Array]
    forcing: eqx.AbstractVar[Any]
    drag: eqx.AbstractVar[Array]

    coefficients: ClassVar[tuple[str, ...]] = ("forcing",)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        hint = "without friction waves as short as the grid would pile up"
        return (PositiveParameter("viscosity", self.viscosity, hint=hint),)

    @property
    def nonlinearity_degree(self) -> int:
        return 2

    def symbol(self, modes: FourierBasis) -> Array:
        return -self.viscosity * modes.wavenumber_squared - self.drag


def convective_term(factor: Any, z: Array, modes: FourierBasis) -> Array:
    """The transform of factor ∂(u²)/∂x, x the first axis."""
    u = modes.ifft(z)
    square = modes.fft(u * u)
    slope = factor * modes.derivative(0).imag
    return jax.lax.complex(-slope * square.imag, slope * square.real)


def vorticity_convection(z: Array, modes: FourierBasis) -> Array:
    """−u·∇ω by two products instead of three fields (Basdevant 1983)."""
    kx, ky = modes.wavenumbers
    u, v = _split_components(modes.ifft(velocity_of_vorticity(z, modes)))
    shear, stretch = _split_components(
        modes.fft(jnp.concatenate([u * v, v * v - u * u]))
    )
    return real_times(kx**2 - ky**2, shear) + real_times(kx * ky, stretch)


def momentum_convection(z: Array, modes: FourierBasis) -> Array:
    """−∇·(uu) without its gradient part.

    Pressure takes one of the squares from all of them: two products in a plane and five
    in space.
    """
    u = _split_components(modes.ifft(z))
    last = len(u) - 1
    axes = range(len(u))
    squares = [(i, i) for i in axes[:-1]]
    pairs = squares + list(combinations(axes, 2))
    products = [
        u[i] * u[j] - u[last] * u[last] if i == j else u[i] * u[j] for i, j in pairs
    ]
    flux = dict(zip(pairs, modes.fft(jnp.concatenate(products)), strict=True))
    # Evaluated once: XLA does not always see that a second evaluation is the same.
    wavenumbers, rows = modes.wavenumbers, []
    for i in range(len(u)):
        terms = [
            real_times(k, flux[min(i, j), max(i, j)])
            for j, k in enumerate(wavenumbers)
            if not i == j == last
        ]
        rows.append(sum(terms[1:], start=terms[0]))
    return project_solenoidal(-1j * jnp.stack(rows), modes)


def velocity_of_vorticity(z: Array, modes: FourierBasis) -> Array:
    """The transform of the velocity (axis, ...) of a vorticity's."""
    kx, ky = modes.wavenumbers
    stream = -modes.inverse_laplacian(z[0])
    return 1j * jnp.stack([real_times(ky, stream), real_times(-kx, stream)])


def project_solenoidal(z: Array, modes: FourierBasis) -> Array:
    """Remove the gradient part: z − k (k·z)/k²."""
    k = modes.wavenumbers
    over = 1 / jnp.where(modes.wavenumber_squared > 0, modes.wavenumber_squared, 1)
    first, *rest = (real_times(a * over, b) for a, b in zip(k, z, strict=True))
    along = sum(rest, start=first)
    return z - jnp.stack([real_times(a, along) for a in k])


def max_speeds(velocity: Array, domain: Domain) -> Array:
    """|v| along each axis, where it crosses most cells; v has shape (axis, *grid)."""
    speeds = jnp.abs(velocity).reshape(len(velocity), -1)
    spacing = domain.grid.spacing.astype(speeds.dtype)
    return speeds[:, jnp.argmax(jnp.sum(speeds / spacing[:, None], axis=0))]


def _split_components(fields: Array) -> Sequence[Array]:
    """Along the first axis, of which each keeps length one.

    Indices would be transposed into fields of zeros with one field in it.
    """
    return jax.lax.split(fields, len(fields) * (1,))
