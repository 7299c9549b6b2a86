"""GMRES, and its flexible form."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._krylov_methods import AbstractKrylovMethod, add_scaled, vector_norm


class GMRES(AbstractKrylovMethod):
    r"""Generalized minimal residuals, restarted, preconditioned from the right.

    $$x_k = \arg\min_{x \in M^{-1} K_k(A M^{-1}, b)} |b - A x|$$

    ```python
    def transport(u):  # advection and diffusion on a ring: not symmetric
        return 3 * u - 2 * jnp.roll(u, 1) - 0.5 * jnp.roll(u, -1)

    solver = implicit.Krylov(implicit.GMRES(restart=20))
    implicit.linear_solve(transport, jnp.arange(100.0), linear_solver=solver)
    ```

    Orthogonalized twice, so that the residual it knows is the residual there is.

    **Arguments**

    - `restart`: basis vectors kept; memory and the work of a step grow with it.

    **Good values:** 30; a good preconditioner needs fewer, a hard problem more.
    """

    restart: int = eqx.field(static=True, default=30)
    references: ClassVar[tuple[str, ...]] = ("10.1137/0907058",)

    def iterated(self, operator, b, **options):
        return _restarted_gmres(operator, b, self.restart, flexible=False, **options)


class FGMRES(AbstractKrylovMethod):
    """GMRES whose preconditioner may change from step to step, or be an iteration.

    ```python
    def transport(u):  # advection and diffusion on a ring
        return 3 * u - 2 * jnp.roll(u, 1) - 0.5 * jnp.roll(u, -1)

    def roughly(r):  # an iteration, which stops at two digits
        inner = implicit.Krylov(rtol=1e-2)
        return implicit.linear_solve(transport, r, linear_solver=inner, throw=False)

    solver = implicit.Krylov(implicit.FGMRES(), preconditioner=roughly)
    implicit.linear_solve(transport, jnp.arange(100.0), linear_solver=solver)
    ```

    Keeps the preconditioned basis too: twice the memory of `GMRES`.

    **Arguments**

    - `restart`: basis vectors kept.
    """

    restart: int = eqx.field(static=True, default=30)
    references: ClassVar[tuple[str, ...]] = ("10.1137/0914028",)

    def iterated(self, operator, b, **options):
        return _restarted_gmres(operator, b, self.restart, flexible=True, **options)


def _restarted_gmres(
    operator, b, size, *, flexible, precondition, inner, tolerance, max_steps
):
    def cycle(carry):
        x, r, _, n = carry
        vectors, triangle, rotated, steps = _arnoldi(
            operator, r, size, flexible, precondition, inner, tolerance
        )
        weights = jax.scipy.linalg.solve_triangular(triangle, rotated)
        move = jax.tree.map(lambda v: _linear_combination(weights, v[:-1]), vectors)
        x = add_scaled(x, 1, move if flexible else precondition(move))
        r = add_scaled(b, -1, operator(x))
        return x, r, vector_norm(inner, r), n + steps

    def wanted(carry):
        _, _, residual, n = carry
        return (residual > tolerance) & (n < max_steps) & jnp.isfinite(residual)

    start = (add_scaled(b, -1, b), b, vector_norm(inner, b), jnp.asarray(0))
    x, _, residual, n = jax.lax.while_loop(wanted, cycle, start)
    return x, residual, n


def _arnoldi(operator, r, size, flexible, precondition, inner, tolerance):
    """A basis of the Krylov space, and the triangular system of its least squares.

    Columns that were not reached are those of the identity, with weight zero.
    """
    beta = vector_norm(inner, r)
    nothing = 0 * beta
    vectors = jax.tree.map(
        lambda a: jnp.zeros((size + 1, *a.shape), a.dtype).at[0].set(a / beta), r
    )
    kept = jax.tree.map(jnp.zeros_like, vectors) if flexible else None

    def step(carry):
        j, vectors, kept, triangle, turned = carry
        z = precondition(jax.tree.map(lambda v: v[j], vectors))
        if flexible:
            kept = jax.tree.map(lambda k, a: k.at[j].set(a), kept, z)
        w, column = _orthogonalize(inner, vectors, operator(z))
        length = vector_norm(inner, w)
        w = jax.tree.map(lambda a: a / jnp.where(length > 0, length, 1), w)
        vectors = jax.tree.map(lambda v, a: v.at[j + 1].set(a), vectors, w)
        column, turned = _givens_rotation(column.at[j + 1].set(length), turned, j)
        return j + 1, vectors, kept, triangle.at[:, j].set(column[:-1]), turned

    def wanted(carry):
        j, turned = carry[0], carry[-1]
        return (j < size) & (beta * jnp.abs(turned[j, 0]) > tolerance)

    eye = jnp.eye(size + 1, dtype=beta.dtype) + nothing
    start = (jnp.asarray(0), vectors, kept, eye[:-1, :-1], eye)
    j, vectors, kept, triangle, turned = jax.lax.while_loop(wanted, step, start)
    # Columns that were not reached have no weight, whatever is left of the residual.
    rotated = jnp.where(jnp.arange(size) < j, beta * turned[:-1, 0], 0)
    return kept if flexible else vectors, triangle, rotated, j


def _linear_combination(weights: Array, vectors: Array) -> Array:
    # Or a GPU would round single precision to ten bits.
    return jnp.tensordot(weights, vectors, axes=1, precision="highest")


def _orthogonalize(inner, vectors, w):
    """w without its parts along `vectors`, and these; twice is enough."""

    def once(w):
        parts = jax.vmap(inner, (0, None))(vectors, w)
        along = jax.tree.map(lambda v: _linear_combination(parts, v), vectors)
        return add_scaled(w, -1, along), parts

    w, first = once(w)
    w, second = once(w)
    return w, first + second


def _givens_rotation(column: Array, turned: Array, j):
    """Column j under the product of all Givens rotations, with its own among them."""
    column = _linear_combination(column, turned.T)
    a, b = column[j], column[j + 1]
    c, s = a / jnp.hypot(a, b), b / jnp.hypot(a, b)
    upper, lower = turned[j], turned[j + 1]
    turned = turned.at[j].set(c * upper + s * lower)
    turned = turned.at[j + 1].set(c * lower - s * upper)
    return column.at[j].set(jnp.hypot(a, b)).at[j + 1].set(0), turned
