"""Curvature of an objective: the units of a search, and whether it found a minimum."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool

from .. import _tuning
from .._linalg import machine_epsilon
from .._types import PyTree


#: Where the search begins, in units of what it may have to go: far below one, so that
#: tolerances are of the way and not of the unit, and not zero, so that steps end.
_BEGIN = 2.0**-20


def minimise_scaled(objective: Callable, solver, y: PyTree[Array], theta, **options):
    """`optimistix.minimise`, of the decrease to be had, by the lengths it takes."""
    flat, unravel = ravel_pytree(y)
    value, slope = jax.value_and_grad(objective)(y, theta)
    slope = jnp.abs(ravel_pytree(slope)[0])
    bent = jnp.abs(_curvatures(lambda z: jax.grad(objective)(z, theta), y))
    # Where it is nearly straight Newton's step is no length: y is, or that over which
    # the objective would lose its value.
    length = jnp.maximum(jnp.abs(flat), _ratio(value, slope, 0))
    bent = jnp.maximum(bent, _ratio(slope, length, 0))
    decrease = _positive(jnp.sum(slope * _ratio(slope, bent, 0)))
    unit = jnp.sqrt(_ratio(decrease, bent, 1))

    def scaled(z, inputs):
        theta, y, (unit, decrease) = inputs
        return objective(_rescale(y, z, unit), theta) / decrease

    scales = (unravel(unit), decrease)
    return _solve_scaled(optx.minimise, scaled, solver, y, (theta, scales), options)


def least_squares_scaled(
    residuals: Callable, solver, y: PyTree[Array], theta, **options
):
    """`optimistix.least_squares`, of residuals that are one, and so their columns."""
    value = residuals(y, theta)
    size = _positive(_norm(value, 0))
    jacobian = jax.jacfwd(lambda z: _divide(residuals(z, theta), size))(y)
    places, structure = jax.tree.flatten(y)
    rows = [
        jax.tree.leaves(row)
        for row in jax.tree.structure(value).flatten_up_to(jacobian)
    ]
    columns = [
        _norm([row[i] for row in rows], a.ndim).astype(a.dtype)
        for i, a in enumerate(places)
    ]
    units = [
        _ratio(1, c, jnp.where(a == 0, 1, jnp.abs(a)))
        for c, a in zip(columns, places, strict=True)
    ]

    def scaled(z, inputs):
        theta, y, (unit, size) = inputs
        return _divide(residuals(_rescale(y, z, unit), theta), size)

    scales = (jax.tree.unflatten(structure, units), size)
    return _solve_scaled(
        optx.least_squares, scaled, solver, y, (theta, scales), options
    )


def _solve_scaled(
    find: Callable, scaled: Callable, solver, y, inputs, options
) -> optx.Solution:
    theta, scales = inputs
    # The way to a minimum has no derivative, nor have its units.
    scales = jax.lax.stop_gradient(scales)
    start = jax.tree.map(lambda a: jnp.full_like(a, _BEGIN), y)
    run = find(scaled, solver, start, (theta, y, scales), **options)
    return eqx.tree_at(lambda run: run.value, run, _rescale(y, run.value, scales[0]))


def _rescale(y: PyTree[Array], z: PyTree[Array], unit: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, z, u: a + u * (z - _BEGIN), y, z, unit)


def _norm(tree: PyTree[Array], kept: int) -> Array:
    """The length along all axes but the last `kept`, of any size of the entries."""

    def largest(a):
        return jnp.max(jnp.abs(a), axis=tuple(range(a.ndim - kept)), initial=0)

    leaves = jax.tree.leaves(tree)
    size = _positive(jnp.max(jnp.stack([largest(a) for a in leaves]), axis=0))
    squares = [
        jnp.sum((a / size) ** 2, axis=tuple(range(a.ndim - kept))) for a in leaves
    ]
    length = jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))
    return jnp.where(length > 0, length * size, 0)


def _divide(tree: PyTree[Array], size: Array) -> PyTree[Array]:
    return jax.tree.map(lambda a: a / size.astype(a.dtype), tree)


def _ratio(above: Any, below: Array, other: Any) -> Array:
    """|above / below|, and `other` where that is no length."""
    ratio = jnp.abs(above / jnp.where(below == 0, 1, below))
    is_length = (below != 0) & (ratio > 0) & jnp.isfinite(ratio)
    return jnp.where(is_length, ratio, other)


def _positive(size: Array) -> Array:
    """`size`, and one where it measures nothing."""
    return jnp.where((size > 0) & jnp.isfinite(size), size, 1)


def _curvatures(gradient: Callable, y: PyTree[Array]) -> Array:
    """The diagonal of the Hessian, flat; of many unknowns, its mean in each array."""
    flat, unravel = ravel_pytree(y)
    if flat.size <= _tuning.UNKNOWNS_OF_WHOLE_HESSIAN:
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

    With many unknowns, only along the way from `start` and in one more.
    """
    flat, unravel = ravel_pytree(y)
    least = machine_epsilon(y) ** 0.5
    if flat.size <= _tuning.UNKNOWNS_OF_WHOLE_HESSIAN:
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
