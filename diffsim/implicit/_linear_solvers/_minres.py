"""Minimal residuals."""

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


class MINRES(AbstractKrylovMethod):
    """Minimal residuals: symmetric $A$ that may be indefinite, $M$ positive definite.

    ```python
    def helmholtz(u):  # u'' + 0.5 u on a ring: symmetric, of both signs
        return jnp.roll(u, 1) + jnp.roll(u, -1) - 1.5 * u

    solver = implicit.Krylov(implicit.MINRES())
    implicit.linear_solve(helmholtz, jnp.arange(40.0), linear_solver=solver)
    ```

    With a preconditioner the residual is known, and stopped at, in its norm.
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/0712047",)

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
            x, old, v, z, w_old, w, turns, left, _, n = carry
            gamma, (c_old, c, s_old, s) = left
            z = jax.tree.map(lambda a: a / gamma, z)
            Az = operator(z)
            delta = inner(Az, z)
            after = add_scaled(
                add_scaled(Az, -delta / gamma, v), -gamma / turns[1], old
            )
            z_after = precondition(after)
            gamma_after = jnp.sqrt(inner(z_after, after))
            a0 = c * delta - c_old * s * gamma
            a1 = jnp.hypot(a0, gamma_after)
            a2 = s * delta + c_old * c * gamma
            a3 = s_old * gamma
            c_old, c, s_old, s = c, a0 / a1, s, gamma_after / a1
            w_old, w = w, _three_term_update(z, a3, w_old, a2, w, a1)
            x = add_scaled(x, c * turns[0], w)
            eta = -s * turns[0]
            left = (gamma_after, (c_old, c, s_old, s))
            carry = (x, v, after, z_after, w_old, w, (eta, gamma), left)
            return *carry, jnp.abs(eta), n + 1

        z = precondition(b)
        gamma = jnp.sqrt(inner(z, b))
        one, none = jnp.ones_like(gamma), add_scaled(b, -1, b)
        left = (gamma, (one, one, 0 * one, 0 * one))
        start = (none, none, b, z, none, none, (gamma, one), left, gamma, 0)
        # |b| in the norm that the recurrence keeps.
        scale = jnp.where(gamma > 0, gamma / vector_norm(inner, b), 1)
        found = iterate_until(step, start, tolerance * scale, max_steps)
        return found[0], found[-2] / scale, found[-1]


def _three_term_update(z, a3, w_old, a2, w, a1):
    return jax.tree.map(lambda z, u, v: (z - a3 * u - a2 * v) / a1, z, w_old, w)
