"""`Multigrid`: geometric multigrid with Chebyshev smoothing."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from ... import _tuning
from ..._linalg import matmul
from ..._types import PyTree
from ..._validation import count
from ._helmholtz_operator import (
    AbstractPreconditioner,
    HelmholtzOperator,
    PreparedOperator,
    operator_diagonal,
    typical_size,
)


class Multigrid(AbstractPreconditioner):
    r"""Geometric multigrid: V-cycles, O(N) work, for variable k and α.

    ```python
    square = pde.Domain(pde.Grid((32, 32)), pde.Dirichlet(0.0))
    x, y = square.grid.centers
    k = jnp.where(jnp.hypot(x - 0.5, y - 0.5) < 0.3, 10.0, 1.0)  # a disk of metal
    f = jnp.ones((32, 32))
    found = pde.poisson_solution(f, square, coefficient=k, solver=pde.Multigrid())
    found.value, found.iterations  # V-cycles
    ```

    Polynomials of Chebyshev smooth on each grid, which is half as fine along every
    axis that it can be halved along; the last one is solved directly. Each cycle is a
    symmetric linear map.

    **Arguments**

    - `cycles`: V-cycles, a fixed number; None goes on until corrections are below
        `rtol`, and a preconditioner takes one then.
    - `smoothing_steps`: degree of the polynomial, before and after each coarser grid.
    - `rtol`: of the correction, relative to the solution; None is the 3/4 power of the
        precision, 2e-12 in float64.
    - `max_cycles`: what has not converged after so many is NaN.

    **Good values:** grids of $2^m$ or $3 \cdot 2^m$ cells along each axis.

    **Limits:** at most 1024 cells where no axis can be halved any more, 31 × 33 say
    (convenience); cells up to twice as long as wide, or it slows down (mathematics of
    smoothing in points), and so do jumps of k: by a factor of 3, 10 and 30 across a
    disk they take 18, 21 and 36 cycles, by 100 `PreconditionedKrylov(Multigrid())`
    is the one to take (mathematics).
    """

    cycles: int | None = eqx.field(
        static=True,
        default=None,
        converter=lambda n: None if n is None else count("cycles", n),
    )
    smoothing_steps: int = eqx.field(
        static=True,
        default=2,
        kw_only=True,
        converter=partial(count, "smoothing_steps"),
    )
    rtol: float | None = eqx.field(default=None, kw_only=True)
    max_cycles: int = eqx.field(
        static=True, default=100, kw_only=True, converter=partial(count, "max_cycles")
    )
    references: ClassVar[tuple[str, ...]] = (
        "10.1090/S0025-5718-1977-0431719-X",
        "10.1016/S0021-9991(03)00194-3",
    )

    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        del exact
        last = system.shape
        while axes := halved_axes(last):
            last = tuple(n // 2 if i in axes else n for i, n in enumerate(last))
        if math.prod(last) <= _tuning.MOST_DENSE_CELLS:
            return ""
        return (
            f"Multigrid() halves a grid of shape {system.shape} down to {last}, which "
            f"has more than {_tuning.MOST_DENSE_CELLS} cells; take a shape with more "
            "factors of two, or PreconditionedKrylov(FastDiagonalization())"
        )

    def prepare(self, system: HelmholtzOperator) -> PyTree:
        grids = [_bound_ghosts(system)]
        while halved_axes(grids[-1].shape):
            grids.append(coarsen(grids[-1]))
        last = grids[-1]
        eye = jnp.eye(math.prod(last.shape), dtype=last.alpha.dtype)
        columns = jax.vmap(lambda e: last(e.reshape(last.shape)).reshape(-1))(eye)
        scales = [1 / operator_diagonal(level) for level in grids[:-1]]
        weights = [transfer_weights(level) for level in grids[:-1]]
        levels = list(zip(scales, weights, strict=True))
        return grids[1:], levels, jnp.linalg.inv(columns.T)

    def solve(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        if self.cycles is None:
            return self._iterate_to_tolerance(prepared, operator, b, guess)
        x = self._repeat_cycles(prepared, operator, b, guess)
        return x, jnp.asarray(self.cycles)

    def apply_preconditioner(self, prepared: PreparedOperator, b: Array) -> Array:
        return self._repeat_cycles(prepared, _bound_ghosts(prepared.system), b, None)

    def _repeat_cycles(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        guess: Any,
    ) -> Array:
        x = guess
        for _ in range(self.cycles or 1):
            left = b if x is None else b - operator(x)
            move = self._v_cycle(prepared, left)
            x = move if x is None else x + move
        return x

    def _iterate_to_tolerance(self, prepared, operator, b, guess):
        rtol = jnp.finfo(b.dtype).eps ** 0.75 if self.rtol is None else self.rtol
        unit = typical_size(b)
        b = b / unit

        def step(carry):
            x, _, _, n = carry
            move = self._v_cycle(prepared, b - operator(x))
            x = x + move
            return x, jnp.sum(move**2), jnp.sum(x**2), n + 1

        def is_moving(carry):
            _, moved, size, n = carry
            return (moved > rtol**2 * size) & (n < self.max_cycles)

        x = jnp.zeros_like(b) if guess is None else guess / unit
        start = (x, jnp.asarray(jnp.inf, b.dtype), jnp.sum(x**2), jnp.asarray(0))
        x, moved, size, n = jax.lax.while_loop(is_moving, step, start)
        return jnp.where(moved <= rtol**2 * size, unit * x, jnp.nan), n

    def _v_cycle(self, prepared: PreparedOperator, b: Array) -> Array:
        """Return one V-cycle from zero."""
        coarser, levels, inverse = prepared.state
        grids = [_bound_ghosts(prepared.system), *coarser]

        cycle = partial(self._cycle, grids, levels, inverse)
        return grids[0].around_constants(cycle)(b)

    def _cycle(self, grids, levels, inverse, b):
        if len(grids) == 1:
            return matmul(inverse, b.reshape(-1)).reshape(b.shape)
        system, (scale, weights) = grids[0], levels[0]
        x = self._smooth(system, scale, b, None)
        left = restrict(b - system.plain(x), system, weights)
        move = self._cycle(grids[1:], levels[1:], inverse, left)
        x = x + prolong(move, system, weights)
        return self._smooth(system, scale, b, x)

    def _smooth(
        self, system: HelmholtzOperator, scale: Array, b: Array, x: Array | None
    ):
        """Chebyshev's polynomial for all that the coarser grid does not see."""
        # Eigenvalues of D⁻¹ A are below 2 by Gershgorin; the coarser grid serves those
        # below 0.6/d. Measured in two dimensions an error is 0.15 after a cycle, and
        # 0.21 with 1/d, where one axis is rough.
        high, low = 2.0, 0.6 / system.ndim
        middle, radius = (high + low) / 2, (high - low) / 2
        step = scale * (b if x is None else b - system.plain(x)) / middle
        x = step if x is None else x + step
        old = radius / middle
        for _ in range(1, self.smoothing_steps):
            new = 1 / (2 * middle / radius - old)
            step = new * old * step + (2 * new / radius) * scale * (b - system.plain(x))
            x, old = x + step, new
        return x


def _bound_ghosts(system: HelmholtzOperator) -> HelmholtzOperator:
    """Bound ghosts by the one cell beside them, which makes A positive definite."""
    walls = jax.tree.map(
        lambda own: jnp.clip(own.sum(), -1, 1).reshape(1, 1), system.walls
    )
    return eqx.tree_at(lambda s: s.walls, system, walls)


def halved_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which cells are joined in pairs."""
    enough = math.prod(shape) <= _tuning.COARSEST_CELLS
    return () if enough else tuple(i for i, n in enumerate(shape) if n % 2 == 0)


def coarsen(system: HelmholtzOperator) -> HelmholtzOperator:
    """The same problem for cells twice as long along every axis that can be halved.

    Fine faces beside each other conduct together, those behind each other in turn: the
    arithmetic mean across a flux and the harmonic mean along it, without which cycles
    fall behind where k varies much from cell to cell.
    """
    axes = halved_axes(system.shape)
    faces = []
    for axis, c in enumerate(system.faces):
        if c.ndim:
            for other in axes:
                on_wall = system.walls[axis] is not None
                c = (
                    _full_weighting(c, axis, on_wall)
                    if other == axis
                    else _pair_means(c, other)
                )
        faces.append(c / 4 if axis in axes else c)
    alpha = system.alpha
    for axis in axes if alpha.ndim else ():
        alpha = _pair_means(alpha, axis)
    walls = tuple(
        (_farther_weights(pair[0]), _farther_weights(pair[1]))
        if pair and axis in axes
        else pair
        for axis, pair in enumerate(system.walls)
    )
    shape = tuple(n // 2 if i in axes else n for i, n in enumerate(system.shape))
    return HelmholtzOperator(
        alpha, tuple(faces), walls, system.sigma, shape, system.kinds
    )


#: For each axis that is halved the share that the even and the odd cell of a pair take
#: of the next pair on their side; the rest is of their own pair.
Weights = dict[int, tuple[Array, Array]]


def transfer_weights(system: HelmholtzOperator) -> Weights:
    """Weights by which the same flux passes all faces between two coarse centers.

    By the resistances of the faces on the way, of numbers a quarter: lines between the
    centers would lead through a layer that insulates.
    """
    weights, axes = {}, halved_axes(system.shape)
    for axis in axes:
        c = system.faces[axis]
        if not c.ndim:
            weights[axis] = (jnp.full_like(c, 0.25),) * 2
            continue
        # Axes before this one are coarse when cells are joined along it.
        for other in axes[: axes.index(axis)]:
            c = _pair_means(c, other)
        n = c.shape[axis] - 1
        below, above = (slice_in_dim(c, i, i + n - 1, 2, axis) for i in (0, 2))
        inside = slice_in_dim(c, 1, n, 2, axis)
        first, last = _layer(inside, 0, axis), _layer(inside, n // 2 - 1, axis)
        ends = (first, last) if system.walls[axis] is not None else (last, first)
        before, after = _shift(ends[0], inside, inside, ends[1], axis)
        weights[axis] = tuple(
            1 / (1 + inside * (2 / face + 1 / beyond))
            for face, beyond in ((below, before), (above, after))
        )
    return weights


def restrict(r: Array, system: HelmholtzOperator, weights: Weights) -> Array:
    """The transpose of `prolong`, of mean weights."""
    for axis in halved_axes(system.shape):
        even, odd = _split_even_odd(r, axis)
        lower, upper = weights[axis]
        down, up = lower * even, upper * odd
        n = even.shape[axis]
        pair = system.walls[axis]
        if pair is None:
            before, after = _layer(up, n - 1, axis), _layer(down, 0, axis)
        else:
            low, high = (_farther_weights(own)[0, 0] for own in pair)
            before = low * _layer(down, 0, axis)
            after = high * _layer(up, n - 1, axis)
        left, right = _shift(before, up, down, after, axis)
        r = (even - down + odd - up + left + right) / 2
    return r


def prolong(u: Array, system: HelmholtzOperator, weights: Weights) -> Array:
    """A field of the coarse grid on that of `system`, by `transfer_weights`."""
    for axis in reversed(halved_axes(system.shape)):
        lower, upper = weights[axis]
        n, pair = u.shape[axis], system.walls[axis]
        first, last = _layer(u, 0, axis), _layer(u, n - 1, axis)
        if pair is None:
            before, after = last, first
        else:
            low, high = (_farther_weights(own)[0, 0] for own in pair)
            before, after = low * first, high * last
        left, right = _shift(before, u, u, after, axis)
        both = jnp.stack([u + lower * (left - u), u + upper * (right - u)], axis + 1)
        u = both.reshape(*u.shape[:axis], 2 * n, *u.shape[axis + 1 :])
    return u


def _farther_weights(weights: Array) -> Array:
    """The ghost at twice the distance: a condition α u + β u_n = 0 stays what it is."""
    return (3 * weights - 1) / (3 - weights)


def _split_even_odd(r: Array, axis: int) -> tuple[Array, Array]:
    pairs = r.reshape(*r.shape[:axis], -1, 2, *r.shape[axis + 1 :])
    even, odd = (
        slice_in_dim(pairs, k, k + 1, axis=axis + 1).squeeze(axis + 1) for k in (0, 1)
    )
    return even, odd


def _shift(
    before: Array, up: Array, down: Array, after: Array, axis: int
) -> tuple[Array, Array]:
    """`up` one cell further along an axis behind `before`, `down` one back."""
    n = up.shape[axis]
    left = jnp.concatenate([before, slice_in_dim(up, 0, n - 1, axis=axis)], axis)
    return left, jnp.concatenate([slice_in_dim(down, 1, n, axis=axis), after], axis)


def _layer(u: Array, i: int, axis: int) -> Array:
    return slice_in_dim(u, i, i + 1, axis=axis)


def _pair_means(c: Array, axis: int) -> Array:
    even, odd = _split_even_odd(c, axis)
    return (even + odd) / 2


def _full_weighting(c: Array, axis: int, on_wall: bool) -> Array:
    """Weigh every second face by a half, those before and behind it by a quarter."""
    n = c.shape[axis] - 1
    here = slice_in_dim(c, 0, n + 1, 2, axis)
    between = slice_in_dim(c, 1, n, 2, axis)
    first, last = _layer(between, 0, axis), _layer(between, n // 2 - 1, axis)
    before, after = (first, last) if on_wall else (last, first)
    left = jnp.concatenate([before, between], axis)
    right = jnp.concatenate([between, after], axis)
    return 4 / (2 / here + 1 / left + 1 / right)
