"""Diffusion preconditioner, read off the Jacobian itself."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._domain import Domain
from .._elliptic import PreconditionedSolver, helmholtz_operator
from ._jacobian_preconditioner import AbstractJacobianPreconditioner


#: Of the mean, the least that anything is taken to spread.
_LEAST = 1e-3


class DiffusionPreconditioner(AbstractJacobianPreconditioner):
    r"""Preconditioner $M = \alpha - \nabla\cdot(k\,\nabla)$ of every channel.

    Of waves that change sign from cell to cell the Jacobian makes
    $-4 k \sum_a \Delta x_a^{-2}$ of their height, of constants $-\alpha$. Fluxes that
    are upwind are among k, and equations need say nothing of it.
    """

    domain: Domain
    t0: Any

    def at(
        self, operator: Callable, y: Float[Array, "channel *grid"]
    ) -> PreconditionedSolver:
        grid, dtype = self.domain.grid, y.dtype
        channels = len(y)
        wave = 1.0 - 2 * (np.indices(grid.shape).sum(0) % 2)
        steepest = jnp.asarray(wave, dtype)
        probes = jnp.stack([steepest, jnp.ones_like(steepest)])
        each = jnp.eye(channels, dtype=dtype).reshape(
            channels, 1, channels, *[1] * grid.ndim
        )
        answers = jax.vmap(jax.vmap(operator))(each * probes[None, :, None])
        own = jnp.stack([answers[c, :, c] for c in range(channels)])
        domains = self.domain.linearized(y, self.t0)
        return PreconditionedSolver(
            [
                self._helmholtz_operator(a * probes, domain)
                for a, domain in zip(own, domains, strict=True)
            ]
        )

    def _helmholtz_operator(self, answers: Array, domain: Domain):
        """Operator of one channel, by the Jacobian of a wave and of a constant."""
        grid = self.domain.grid
        spacing = grid.spacing.astype(answers.dtype)
        steep, level = self._without_boundary_cells(answers)
        k = (level - steep) / (4 * jnp.sum(spacing**-2))
        typical = jnp.mean(jnp.abs(k))
        k = jnp.maximum(k, _LEAST * typical)
        # Waves longer than the grid; and where nothing spreads or reacts, one for all.
        longest = jnp.max(grid.upper - grid.lower).astype(answers.dtype)
        least = typical / longest**2
        alpha = jnp.abs(level) + least
        empty = jnp.max(alpha) == 0
        k, alpha = jnp.where(empty, 1, k), jnp.where(empty, 1, alpha)
        return helmholtz_operator(domain, k, alpha, answers.dtype, regular=True)

    def _without_boundary_cells(self, answers: Array) -> Array:
        """Replace cells beside boundaries by those before them."""
        for axis, n in enumerate(self.domain.grid.shape):
            if n > 2 and not self.domain.periodic(axis):
                inner = jax.lax.slice_in_dim(answers, 1, n - 1, axis=axis + 1)
                pads = [(0, 0)] * answers.ndim
                pads[axis + 1] = (1, 1)
                answers = jnp.pad(inner, pads, mode="edge")
        return answers
