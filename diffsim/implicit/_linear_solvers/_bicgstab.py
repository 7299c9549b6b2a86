"""Stabilized biconjugate gradients."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._krylov_method import (
    AbstractKrylovMethod,
    Inner,
    Vector,
    add_scaled,
    iterate_until,
    vector_norm,
)


class BiCGStab(AbstractKrylovMethod):
    """Stabilized bi-conjugate gradients: any $A$, in the memory of eight vectors.

    ```python
    def transport(u):  # advection and diffusion of 10⁵ cells
        return 3 * u - 2 * jnp.roll(u, 1) - 0.5 * jnp.roll(u, -1)

    solver = implicit.Krylov(implicit.BiCGStab())
    implicit.linear_solve(transport, jnp.arange(1e5), linear_solver=solver)
    ```

    Two products a step. It begins anew where the residual has become orthogonal to its
    shadow, as it does at once where $b$ is an eigenvector of $A^T$.
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/0913035",)

    def iterated(
        self,
        operator: Callable[[Vector], Vector],
        b: Vector,
        *,
        precondition: Callable[[Vector], Vector],
        inner: Inner,
        tolerance: Array,
        max_steps: int,
    ) -> tuple[Vector, Array, Array]:
        def step(carry):
            x, r, p, shadow, (rho, length), _, n = carry
            y = precondition(p)
            v = operator(y)
            alpha = rho / inner(shadow, v)
            s = add_scaled(r, -alpha, v)
            z = precondition(s)
            t = operator(z)
            # At s = 0 the half step is the answer.
            omega = inner(t, s) / jnp.maximum(inner(t, t), jnp.finfo(rho.dtype).tiny)
            x, r = (
                add_scaled(add_scaled(x, alpha, y), omega, z),
                add_scaled(s, -omega, t),
            )
            old, rho, size = rho, inner(shadow, r), vector_norm(inner, r)
            lost = jnp.abs(rho) <= _orthogonal(rho) * length * size
            beta = jnp.where(lost, 0, rho / old * (alpha / omega))
            p = add_scaled(r, beta, add_scaled(p, -omega, v))
            shadow = jax.tree.map(lambda a, c: jnp.where(lost, a, c), r, shadow)
            rho = jnp.where(lost, size * size, rho)
            length = jnp.where(lost, size, length)
            return x, r, p, shadow, (rho, length), size, n + 2

        size = vector_norm(inner, b)
        start = (add_scaled(b, -1, b), b, b, b, (size * size, size), size, 0)
        x, *_, residual, n = iterate_until(step, start, tolerance, max_steps)
        return x, residual, n


def _orthogonal(rho: Array) -> float:
    """The cosine below which two vectors have nothing in common but rounding."""
    return float(jnp.finfo(rho.dtype).eps) ** 0.75
