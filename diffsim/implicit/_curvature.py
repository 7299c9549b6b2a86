"""Second derivatives of an objective, few enough to look at."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, PyTree

from .._norms import machine_epsilon


#: Up to so many unknowns a whole Hessian is cheap beside the search.
_FEW = 32


def curvatures(gradient: Callable, y: PyTree[Array]) -> Array:
    """The diagonal of the Hessian, flat; of many unknowns, its mean in each array."""
    flat, unravel = ravel_pytree(y)
    if flat.size <= _FEW:
        return jnp.diagonal(_hessian(gradient, y))
    _, pull = jax.vjp(gradient, y)
    waves = _probe_vector(flat)
    means = []
    leaves = jax.tree.leaves(y)
    for i, leaf in enumerate(leaves):
        wave = [
            a if i == j else jnp.zeros_like(a)
            for j, a in enumerate(jax.tree.leaves(unravel(waves)))
        ]
        product = jax.tree.leaves(
            pull(jax.tree.unflatten(jax.tree.structure(y), wave))[0]
        )
        mean = jnp.sum(product[i] * wave[i]) / max(leaf.size, 1)
        means.append(jnp.broadcast_to(mean, leaf.shape))
    return ravel_pytree(means)[0].astype(flat.dtype)


def is_bowl(
    gradient: Callable, y: PyTree[Array], start: PyTree[Array]
) -> Bool[Array, ""]:
    """Whether the Hessian is not negative, to rounding, in any direction.

    Of many unknowns, along the way from `start` and in one more.
    """
    flat, unravel = ravel_pytree(y)
    least = machine_epsilon(y) ** 0.5
    if flat.size <= _FEW:
        hessian = _hessian(gradient, y)
        diagonal = jnp.abs(jnp.diagonal(hessian))
        size = jnp.sqrt(jnp.where(diagonal == 0, 1, diagonal))
        # By its diagonal, so that the units of unknowns do not count.
        scaled = hessian / size / size[:, None] + least * jnp.eye(flat.size)
        return jnp.all(jnp.isfinite(jnp.linalg.cholesky(scaled)))
    _, pull = jax.vjp(gradient, y)

    def bends_up(direction):
        product = ravel_pytree(pull(unravel(direction))[0])[0]
        sizes = jnp.linalg.norm(direction) * jnp.linalg.norm(product)
        return jnp.sum(direction * product) >= -least * sizes

    return bends_up(flat - ravel_pytree(start)[0]) & bends_up(_probe_vector(flat))


def _hessian(gradient: Callable, y: PyTree[Array]) -> Array:
    # By reverse mode, which every objective has.
    flat, unravel = ravel_pytree(y)
    _, pull = jax.vjp(lambda x: ravel_pytree(gradient(unravel(x)))[0], flat)
    rows = jax.vmap(lambda v: pull(v)[0])(jnp.eye(flat.size, dtype=flat.dtype))
    return (rows + rows.T) / 2


def _probe_vector(flat: Array) -> Array:
    """Signs in no order that a stencil would cancel."""
    wave = jnp.cos(jnp.arange(1.0, flat.size + 1) ** 2)
    return jnp.where(wave < 0, -1, 1).astype(flat.dtype)
