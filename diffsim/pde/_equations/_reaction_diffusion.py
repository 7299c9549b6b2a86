"""`AbstractReactionDiffusion`: what reacts where it is, and spreads."""

import abc
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ...integrators import KenCarp5
from ...simulations import Method
from .._domain import Domain
from .._fourier import FourierBasis
from ._equation import AbstractIMEXEquation, AbstractSpectralEquation
from ._implicit_diffusion import (
    diffusion_term,
    diffusive_courant_rate,
    evaluate_diffusivities,
    solve_implicit_diffusion,
)


class AbstractReactionDiffusion(AbstractIMEXEquation, AbstractSpectralEquation):
    r"""$\partial_t u_c = \nabla\cdot(D_c\,\nabla u_c) + R_c(t, x, u)$.

    In cells with any boundary and any D, and in Fourier modes where every D is a
    number. Diffusion is the stiff part in both; steps are explicit in the reaction.
    Subclasses say `diffusivities`, `reaction` and `nonlinearity_degree`.
    """

    @property
    @abc.abstractmethod
    def diffusivities(self) -> tuple[Any, ...]:
        """D of every channel: numbers, fields, or functions of (t, x, u_c)."""

    @abc.abstractmethod
    def reaction(self, t: Any, x: Array, u: Array) -> Array | None:
        """R, shape (channel, *grid), or None if there is none."""

    def channels(self, ndim: int) -> int:
        del ndim
        given = self.diffusivities
        if not isinstance(given, tuple):
            raise ValueError(
                f"diffusivities of {type(self).__name__} must be a property that "
                f"returns a tuple, one of each channel, got {given!r:.60}"
            )
        return len(given)

    def explicit(self, t: Any, u: Array, domain: Domain) -> Array | None:
        return _reacting(self, t, domain.grid.centers.astype(u.dtype), u)

    def implicit(self, t: Any, u: Array, domain: Domain) -> Array:
        return diffusion_term(self.diffusivities, t, u, domain)

    def solve(
        self, t: Any, rhs: Array, length: Array, guess: Array, domain: Domain
    ) -> Array:
        return solve_implicit_diffusion(
            self.diffusivities, (t, length), rhs, guess, domain
        )

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        change = self.explicit(t, u, domain)
        spreading = self.implicit(t, u, domain)
        return spreading if change is None else spreading + change

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        fields = evaluate_diffusivities(self.diffusivities, t, u, domain)
        fastest = jnp.stack([jnp.max(k) for k in fields])
        return diffusive_courant_rate(fastest, domain, u.dtype)

    def default_method(self, domain: Domain) -> Method:
        del domain
        return Method(KenCarp5())

    def symbol(self, modes: FourierBasis) -> Array:
        numbers = [_number(type(self).__name__, d) for d in self.diffusivities]
        return -jnp.stack([d * modes.wavenumber_squared for d in numbers])

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        found = _reacting(self, t, modes.grid.centers, modes.ifft(z))
        return jnp.zeros_like(z) if found is None else modes.fft(found)


def _reacting(
    equation: AbstractReactionDiffusion, t: Any, x: Array, u: Array
) -> Array | None:
    found = equation.reaction(t, x, u)
    if found is not None and jnp.shape(found) != u.shape:
        raise ValueError(
            f"reaction of {type(equation).__name__} must return the shape of u, "
            f"{u.shape}, one field a channel, got {jnp.shape(found)}; jnp.stack joins "
            "them"
        )
    return found


def _number(name: str, given: Any) -> Any:
    if callable(given) or jnp.ndim(given):
        raise ValueError(
            f"{name} in Fourier modes needs diffusivities that are numbers, got "
            f"{'a function' if callable(given) else f'shape {jnp.shape(given)}'}; take "
            "discretization=pde.FiniteVolume()"
        )
    return given
