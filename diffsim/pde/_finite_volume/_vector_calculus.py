"""Derivatives of vector fields."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._domain import Domain, check_domain
from ._operators import gradient


def divergence(v: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""$\nabla\cdot\mathbf v$ at the centers of the cells, shape (*grid).

    **Arguments**

    - `v`: shape (axis, *grid); boundaries may give one number or field a component.
    - `domain`, `t`, `order`: as for `laplacian`.

    **Raises:** `ValueError` for a field without one component an axis.
    """
    _check_components(v, domain, (1, 2, 3), "divergence")
    slopes = gradient(v, domain, t, order=order)
    return sum((slopes[i, i] for i in range(1, len(v))), start=slopes[0, 0])


def curl(v: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""$\nabla\times\mathbf v$ at the centers of the cells.

    In two dimensions $\partial_x v_y - \partial_y v_x$, shape (*grid); in three a
    vector field, shape (axis, *grid).

    **Arguments**

    - `v`: shape (axis, *grid); boundaries may give one number or field a component.
    - `domain`, `t`, `order`: as for `laplacian`.

    **Raises:** `ValueError` for a field without one component an axis, and in one
    dimension, where there is no curl.
    """
    _check_components(v, domain, (2, 3), "curl")
    return curl_of(list(gradient(v, domain, t, order=order)))


def curl_of(slopes: list[Array]) -> Array:
    """∇×v from the derivatives along each axis, shape (..., component, *grid)."""
    ndim = len(slopes)
    along = [jnp.unstack(slope, axis=-ndim - 1) for slope in slopes]
    if ndim == 2:
        return along[0][1] - along[1][0]
    turns = (1, 2), (2, 0), (0, 1)
    return jnp.stack([along[i][j] - along[j][i] for i, j in turns], -ndim - 1)


def _check_components(v: Array, domain: Domain, allowed: tuple[int, ...], name: str):
    check_domain(domain)
    ndim, shape = domain.grid.ndim, domain.grid.shape
    if ndim not in allowed:
        raise ValueError(f"{name} needs two or three dimensions, got a grid of {shape}")
    if jnp.shape(v) != (ndim, *shape):
        raise ValueError(
            f"v must have shape {(ndim, *shape)}, one component an axis, got "
            f"{jnp.shape(v)}"
        )
