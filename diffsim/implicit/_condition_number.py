"""Condition number of a system that is known by its products and its solutions."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._types import PyTree
from ._linear_solvers import AbstractLinearSolver


def condition_number(
    operator, y: PyTree[Array], linear_solver: AbstractLinearSolver
) -> Array:
    r"""Lower estimate of $|A|_1 |A^{-1}|_1$, infinite where a solve gives NaN.

    **References:** N. J. Higham, *FORTRAN codes for estimating the one-norm of a real
    or complex matrix*, ACM TOMS 14 (1988) 381, doi:10.1145/50063.214386.
    """
    turned = jax.linear_transpose(operator, y)
    state = linear_solver.prepare(operator, y)
    inverse = _one_norm(
        lambda b: linear_solver.solve(state, operator, b)[0],
        lambda b: linear_solver.solve_transpose(state, lambda v: turned(v)[0], b)[0],
        y,
    )
    size = _one_norm(operator, lambda v: turned(v)[0], y)
    return jnp.where(jnp.isfinite(inverse), size * inverse, jnp.inf)


def _one_norm(operator, transposed, y: PyTree[Array], steps: int = 4) -> Array:
    """The largest |A x|₁ of `steps` vectors of |x|₁ = 1, each chosen by the last."""
    flat, unravel = ravel_pytree(y)
    n = flat.size

    def product(function, x):
        return ravel_pytree(function(unravel(x)))[0]

    def step(x, _):
        Ax = product(operator, x)
        slope = product(transposed, jnp.where(Ax < 0, -1, 1).astype(Ax.dtype))
        best = jnp.argmax(jnp.abs(slope))
        x = (jnp.arange(n) == best).astype(flat.dtype)
        return x, jnp.sum(jnp.abs(Ax))

    # The start has the type of y, inside shard_map as well.
    start = jnp.where(False, flat, 1 / n)
    _, sizes = jax.lax.scan(step, start, None, length=steps)
    # A vector that no cancellation in A is likely to hide from.
    wave = (-1.0) ** jnp.arange(n) * (1 + jnp.arange(n) / max(n - 1, 1))
    tried = product(operator, jnp.where(False, flat, wave.astype(flat.dtype)))
    return jnp.maximum(jnp.max(sizes), 2 * jnp.sum(jnp.abs(tried)) / (3 * n))
