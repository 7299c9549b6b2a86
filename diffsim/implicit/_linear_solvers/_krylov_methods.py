"""Krylov methods of short recurrences, and what all of them share."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree


Vector = PyTree[Array]
Inner = Callable[[Vector, Vector], Array]


class AbstractKrylovMethod(eqx.Module):
    """Krylov method for A x = b from x = 0, by products with A and M⁻¹ only."""

    @abc.abstractmethod
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
        """x, |b − A x| as the method knows it, and the number of its products."""


def add_scaled(a: Vector, scale: Any, b: Vector) -> Vector:
    """a + scale b."""
    return jax.tree.map(lambda x, y: x + scale * y, a, b)


def vector_norm(inner: Inner, a: Vector) -> Array:
    return jnp.sqrt(inner(a, a))


def iterate_until(
    step: Callable[[Any], Any], start: tuple, tolerance: Array, max_steps: int
) -> tuple[Any, ...]:
    """Repeat `step` until its last but one entry, the residual, is small."""

    def wanted(carry):
        *_, residual, n = carry
        return (residual > tolerance) & (n < max_steps) & jnp.isfinite(residual)

    start = (*start[:-1], jnp.asarray(start[-1]))
    return jax.lax.while_loop(wanted, step, start)


class CG(AbstractKrylovMethod):
    r"""Conjugate gradients: symmetric positive definite $A$ and $M$.

    ```python
    def stiffness(u):  # −u'' between walls
        return jnp.convolve(u, jnp.array([-1.0, 2.0, -1.0]), "same")

    solver = implicit.Krylov(implicit.CG())
    implicit.linear_solve(stiffness, jnp.ones(100), linear_solver=solver)
    ```

    The error falls by $(\sqrt\kappa - 1)/(\sqrt\kappa + 1)$ a step.
    """

    references: ClassVar[tuple[str, ...]] = ("10.6028/jres.049.044",)

    def iterated(self, operator, b, *, precondition, inner, tolerance, max_steps):
        def step(carry):
            x, r, p, rz, _, n = carry
            Ap = operator(p)
            alpha = rz / inner(p, Ap)
            x, r = add_scaled(x, alpha, p), add_scaled(r, -alpha, Ap)
            z = precondition(r)
            old, rz = rz, inner(r, z)
            return x, r, add_scaled(z, rz / old, p), rz, vector_norm(inner, r), n + 1

        z = precondition(b)
        start = (add_scaled(b, -1, b), b, z, inner(b, z), vector_norm(inner, b), 0)
        x, _, _, _, residual, n = iterate_until(step, start, tolerance, max_steps)
        return x, residual, n


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

    def iterated(self, operator, b, *, precondition, inner, tolerance, max_steps):
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
        unit, zero = jnp.ones_like(gamma), add_scaled(b, -1, b)
        left = (gamma, (unit, unit, 0 * unit, 0 * unit))
        start = (zero, zero, b, z, zero, zero, (gamma, unit), left, gamma, 0)
        # |b| in the norm that the recurrence keeps.
        scale = jnp.where(gamma > 0, gamma / vector_norm(inner, b), 1)
        x, *_, residual, n = iterate_until(step, start, tolerance * scale, max_steps)
        return x, residual / scale, n


def _three_term_update(z, a3, w_old, a2, w, a1):
    return jax.tree.map(lambda z, u, v: (z - a3 * u - a2 * v) / a1, z, w_old, w)


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

    def iterated(self, operator, b, *, precondition, inner, tolerance, max_steps):
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
