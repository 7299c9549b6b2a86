"""Minimisers in the units of a problem, which scaling it does not change."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ._curvature import curvatures


#: Where the search begins, in units of what it may have to go: far below one, so that
#: tolerances are of the way and not of the unit, and not zero, so that steps end.
_BEGIN = 2.0**-20


def minimise_scaled(objective: Callable, solver, y: PyTree[Array], theta, **options):
    """`optimistix.minimise`, of the decrease to be had, by the lengths it takes."""
    flat, unravel = ravel_pytree(y)
    value, slope = jax.value_and_grad(objective)(y, theta)
    slope = jnp.abs(ravel_pytree(slope)[0])
    bent = jnp.abs(curvatures(lambda z: jax.grad(objective)(z, theta), y))
    # Where it is nearly straight Newton's step is no length: y is, or that over which
    # the objective would lose its value.
    length = jnp.maximum(jnp.abs(flat), _ratio(value, slope, 0))
    bent = jnp.maximum(bent, _ratio(slope, length, 0))
    decrease = _positive(jnp.sum(slope * _ratio(slope, bent, 0)))
    unit = jnp.sqrt(_ratio(decrease, bent, 1))

    def scaled(z, given):
        theta, y, (unit, decrease) = given
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
    rows = [jax.tree.leaves(row) for row in _rows(value, jacobian)]
    columns = [
        _norm([row[i] for row in rows], a.ndim).astype(a.dtype)
        for i, a in enumerate(places)
    ]
    units = [
        _ratio(1, c, jnp.where(a == 0, 1, jnp.abs(a)))
        for c, a in zip(columns, places, strict=True)
    ]

    def scaled(z, given):
        theta, y, (unit, size) = given
        return _divide(residuals(_rescale(y, z, unit), theta), size)

    scales = (jax.tree.unflatten(structure, units), size)
    return _solve_scaled(
        optx.least_squares, scaled, solver, y, (theta, scales), options
    )


def _solve_scaled(find: Callable, scaled: Callable, solver, y, given, options) -> Any:
    theta, scales = given
    # The way to a minimum has no derivative, and with it what it is measured by.
    scales = jax.lax.stop_gradient(scales)
    start = jax.tree.map(lambda a: jnp.full_like(a, _BEGIN), y)
    found = find(scaled, solver, start, (theta, y, scales), **options)
    unit = scales[0]
    return eqx.tree_at(lambda f: f.value, found, _rescale(y, found.value, unit))


def _rescale(y: PyTree[Array], z: PyTree[Array], unit: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, z, u: a + u * (z - _BEGIN), y, z, unit)


def _rows(value, jacobian) -> list:
    return jax.tree.structure(value).flatten_up_to(jacobian)


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
    found = jnp.abs(above / jnp.where(below == 0, 1, below))
    return jnp.where((below != 0) & (found > 0) & jnp.isfinite(found), found, other)


def _positive(size: Array) -> Array:
    """`size`, and one where it measures nothing."""
    return jnp.where((size > 0) & jnp.isfinite(size), size, 1)
