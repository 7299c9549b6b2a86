"""Differential operators on cell averages: gradient, divergence, curl, Laplacian."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._types import Numbers
from ..._validation import instance, one_of
from .._domain import Domain, as_field
from .._stencils import difference, divergence as face_divergence


#: Means of a coefficient in both cells beside a face.
FACE_MEANS = ("harmonic", "arithmetic")
#: Relative change from cell to cell up to which a coefficient counts as smooth.
_EVEN_STEP = 0.05


@fresh_jit
def laplacian(u: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""Laplacian $\nabla^2 u$ in every cell, by differences across its faces.

    ```python
    square = pde.Domain(pde.Grid((64, 64)), pde.Dirichlet(0.0))
    x, y = square.grid.centers
    u = jnp.sin(np.pi * x) * jnp.sin(np.pi * y)
    pde.laplacian(u, square, order=4)  # −2π² u
    ```

    **Arguments**

    - `u`: shape (..., *grid).
    - `domain`: the grid and its boundaries, taken at the time `t`.
    - `order`: 2 or 4, of its error in Δx for smooth u.

    **Raises:** `ValueError` for a field that does not fit the grid.
    """
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    one_of("order", order, (2, 4))
    u = as_field(u)
    faces = domain.face_neighbors(u, t, width=order // 2, order=order)
    spacing = domain.grid.spacing.astype(u.dtype)
    pairs = zip(faces, spacing, strict=True)
    return face_divergence([dx**-2 * _face_difference(views) for views, dx in pairs])


@fresh_jit
def diffusion(
    u: Array,
    coefficient: Numbers | tuple[Array, ...],
    domain: Domain,
    t: Any = 0.0,
    *,
    face_mean: str = "harmonic",
) -> Array:
    r"""Diffusion $\nabla\cdot(k\,\nabla u)$ in every cell, of order 2.

    ```python
    rod = pde.Domain(pde.Grid(64), (pde.Dirichlet(0.0), pde.Dirichlet(1.0)))
    x = rod.grid.centers[0]
    pde.diffusion(x, 1 + x, rod)  # ∂/∂x (1 + x) = 1, to 1e-4
    ```

    What leaves a cell enters its neighbor: the sum over cells changes by what passes
    the boundary, to machine precision.

    **Arguments**

    - `u`: shape (..., *grid); `coefficient`: k, a number or a field, shape (*grid), or
        one for each channel, shape (channel, *grid); or a tuple of fields on the faces
        across each axis, shape (*grid) with one more along that.
    - `domain`, `t`: as for `laplacian`.
    - `face_mean`: of both cells beside a face. `"harmonic"`, 2/(1/k₁ + 1/k₂), is what
        two layers conduct one behind the other, exact where k jumps from cell to cell;
        at a boundary k goes on from the last cell with the smaller slope of the two
        behind it, and by no more than half. `"arithmetic"` is for a k that depends on
        u, whose fronts the other would stop.

    **Raises:** `ValueError` for a coefficient of another shape and another `face_mean`.
    """
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    one_of("face_mean", face_mean, FACE_MEANS)
    u = as_field(u)
    k = values_on_faces(coefficient, domain, u.dtype, face_mean)
    return diffusion_flux_divergence(u, k, domain, t)


@fresh_jit
def gradient(u: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""Gradient $\nabla u$ at the centers of the cells, shape (axis, ..., *grid).

    ```python
    plane = pde.Domain(pde.Grid((64, 32)), (pde.Periodic(), pde.Neumann(0.0)))
    x, y = plane.grid.centers
    pde.gradient(jnp.sin(2 * np.pi * x), plane, order=4)  # 2π cos 2πx and 0
    ```

    **Arguments:** `u`, `domain`, `t` and `order` as for `laplacian`.
    """
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    one_of("order", order, (2, 4))
    u = as_field(u)
    # A derivative has one order less than what it is of.
    faces = domain.face_neighbors(u, t, width=order // 2, order=order + 1)
    spacing = domain.grid.spacing.astype(u.dtype)
    ndim = domain.grid.ndim
    pairs = enumerate(zip(faces, spacing, strict=True))
    return jnp.stack(
        [difference(1 / dx * _face_mean(views), i - ndim) for i, (views, dx) in pairs]
    )


def divergence(v: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""Divergence $\nabla\cdot\mathbf v$ at the centers of the cells, shape (*grid).

    ```python
    torus = pde.Domain(pde.Grid((64, 64), 0.0, 2 * np.pi))
    x, y = torus.grid.centers
    pde.divergence(jnp.stack([jnp.sin(x), jnp.sin(y)]), torus)  # cos x + cos y
    ```

    **Arguments**

    - `v`: shape (axis, *grid); boundaries may give one number or field a component.
    - `domain`, `t`, `order`: as for `laplacian`.

    **Raises:** `ValueError` for a field without one component an axis.
    """
    _check_components(v, domain)
    slopes = gradient(v, domain, t, order=order)
    return sum((slopes[i, i] for i in range(1, len(v))), start=slopes[0, 0])


def curl(v: Array, domain: Domain, t: Any = 0.0, *, order: int = 2) -> Array:
    r"""Curl $\nabla\times\mathbf v$ at the centers of the cells.

    ```python
    torus = pde.Domain(pde.Grid((64, 64), 0.0, 2 * np.pi))
    x, y = torus.grid.centers
    vortices = jnp.stack([-jnp.sin(y), jnp.sin(x)])
    pde.curl(vortices, torus)  # cos x + cos y
    ```

    In two dimensions $\partial_x v_y - \partial_y v_x$, shape (*grid); in three a
    vector field, shape (axis, *grid).

    **Arguments**

    - `v`: shape (axis, *grid); boundaries may give one number or field a component.
    - `domain`, `t`, `order`: as for `laplacian`.

    **Raises:** `ValueError` for a field without one component an axis, and in one
    dimension, where there is no curl.
    """
    _check_components(v, domain)
    if domain.grid.ndim == 1:
        raise ValueError("curl needs two or three dimensions, got a grid of one")
    return curl_of(list(gradient(v, domain, t, order=order)))


def curl_of(slopes: list[Array]) -> Array:
    """∇×v from the derivatives along each axis, shape (..., component, *grid)."""
    ndim = len(slopes)
    along = [jnp.unstack(slope, axis=-ndim - 1) for slope in slopes]
    if ndim == 2:
        return along[0][1] - along[1][0]
    turns = (1, 2), (2, 0), (0, 1)
    return jnp.stack([along[i][j] - along[j][i] for i, j in turns], -ndim - 1)


def diffusion_term_of_order(
    faces: Sequence[Array], order: int, t: Any, u: Array, domain: Domain
) -> Array:
    r"""Diffusion $\nabla\cdot(D\,\nabla u)$ of one channel, beside a scheme.

    Of order 4 where that is above 2 and D on the faces a number, else 2.
    """
    if order > 2 and not any(k.ndim for k in faces):
        return faces[0] * laplacian(u, domain, t, order=4)
    return diffusion_flux_divergence(u, faces, domain, t)


def diffusive_courant_rate(faces: Sequence[Array], domain: Domain, dtype: Any) -> Array:
    """Courant rate of diffusion: Σ 2 D/Δx² over axes, at the largest D of `faces`."""
    spacing = domain.grid.spacing.astype(dtype)
    rates = [jnp.max(k) / dx**2 for k, dx in zip(faces, spacing, strict=True)]
    return 2 * jnp.sum(jnp.stack(rates))


def diffusion_flux_divergence(
    u: Array, k: Sequence[Array], domain: Domain, t: Any
) -> Array:
    """∇·(k ∇u) with k on the faces across each axis."""
    faces = domain.face_neighbors(u, t)
    spacing = domain.grid.spacing.astype(u.dtype)
    axes = zip(k, faces, spacing, strict=True)
    return face_divergence(
        [ka * dx**-2 * _face_difference(views) for ka, views, dx in axes]
    )


def values_on_faces(
    coefficient: Any, domain: Domain, dtype: Any, face_mean: str = "harmonic"
) -> list[Array]:
    """A coefficient on the faces across each axis, as `diffusion` has it."""
    ndim = domain.grid.ndim
    if isinstance(coefficient, tuple | list):
        return [jnp.asarray(field, dtype) for field in coefficient]
    field = jnp.asarray(coefficient, dtype)
    if field.shape[-ndim:] in ((), (1,) * ndim):
        return [field] * ndim
    domain.check(field)
    if face_mean == "harmonic":
        return [
            _harmonic_means(field, i - ndim, is_ring=domain.periodic(i))
            for i in range(ndim)
        ]
    views = domain.with_extrapolated_boundaries.face_neighbors(field, order=2)
    return [
        (left + right) / 2
        if domain.periodic(i)
        else _boundary_coefficient(left, right, i - ndim)
        for i, (left, right) in enumerate(views)
    ]


def shapes_on_faces(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Those of fields on the faces across each axis, of a grid of this shape."""
    axes = range(len(shape))
    return [tuple(n + (i == axis) for i, n in enumerate(shape)) for axis in axes]


def _harmonic_means(field: Array, axis: int, *, is_ring: bool) -> Array:
    """The harmonic mean of the cells beside every face across `axis` < 0."""
    n = field.shape[axis]

    def cells(start, stop):
        return jax.lax.slice_in_dim(field, start, stop, axis=axis % field.ndim)

    inner = _harmonic_mean(cells(0, n - 1), cells(1, n))
    if is_ring:
        seam = _harmonic_mean(cells(n - 1, n), cells(0, 1))
        return jnp.concatenate([seam, inner, seam], axis)
    places = [0, min(1, n - 1), min(2, n - 1)]
    ends = [
        _at_wall(*(cells(i, i + 1) for i in beside))
        for beside in (places, [n - 1 - i for i in places])
    ]
    return jnp.concatenate([ends[0], inner, ends[1]], axis)


@jax.custom_jvp
def _harmonic_mean(a: Array, b: Array) -> Array:
    """2/(1/a + 1/b); of numbers of two signs, which conduct nothing, the other mean."""
    alike, share, other = _shares(a, b)
    return jnp.where(alike, a * share + b * other, a + b) / 2


@_harmonic_mean.defjvp
def _harmonic_mean_tangent(cells, tangents):
    """By squares, where JAX would take differences of numbers that are alike."""
    _, share, other = _shares(*cells)
    da, db = tangents
    return _harmonic_mean(*cells), (share**2 * da + other**2 * db) / 2


def _shares(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Whether two cells conduct, 2 b/(a + b) and 2 a/(a + b); else one for both."""
    total = a + b
    alike = ((a >= 0) & (b >= 0) | (a <= 0) & (b <= 0)) & (total != 0)
    total = jnp.where(alike, total, 2)
    return alike, jnp.where(alike, 2 * b, 2) / total, jnp.where(alike, 2 * a, 2) / total


def _at_wall(last: Array, before: Array, first: Array) -> Array:
    """A coefficient at the boundary, from the three cells beside it.

    Half a step of the slope, which fades where two steps differ, as at layers of one
    cell: a mean that the smaller step rules, smooth in uniform and linear coefficients.
    """
    near, far = _relative_step(last, before), _relative_step(before, first)
    near_4, far_4 = near**4 + _EVEN_STEP**4, far**4 + _EVEN_STEP**4
    slope = (far_4 * near + near_4 * far) / (near_4 + far_4)
    return last + last * slope / (2 * jnp.sqrt(1 + slope**2))


def _relative_step(a: Array, b: Array) -> Array:
    """(a − b) of their mean size: at most 2, however far apart they are."""
    size = (jnp.abs(a) + jnp.abs(b)) / 2
    return (a - b) / jnp.where(size == 0, 1, size)


def _boundary_coefficient(left: Array, right: Array, axis: int) -> Array:
    """The mean; at boundaries half of the last cell if the ghost has another sign."""
    place = jax.lax.broadcasted_iota(int, left.shape, axis % left.ndim)
    first, last = place == 0, place == left.shape[axis] - 1
    # Signs are compared, as products of small numbers are zero.
    turned = (left >= 0) & (right <= 0) | (left <= 0) & (right >= 0)
    last_cell = jnp.where(first, right, left)
    return jnp.where((first | last) & turned, last_cell, left + right) / 2


def _face_difference(views: list[Array]) -> Array:
    """Δx times the derivative on faces."""
    if len(views) == 2:
        return views[1] - views[0]
    return (15 * (views[2] - views[1]) - (views[3] - views[0])) / 12


def _face_mean(views: list[Array]) -> Array:
    """Face value whose difference is the cell mean of the derivative."""
    if len(views) == 2:
        return (views[0] + views[1]) / 2
    return (7 * (views[1] + views[2]) - (views[0] + views[3])) / 12


def _check_components(v: Array, domain: Domain):
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    shape = domain.grid.ndim, *domain.grid.shape
    if jnp.shape(v) != shape:
        raise ValueError(
            f"v must have shape {shape}, one component an axis, got {jnp.shape(v)}"
        )
