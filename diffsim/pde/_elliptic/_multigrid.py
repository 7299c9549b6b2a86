"""`Multigrid`: geometric multigrid with Chebyshev smoothing."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._linalg import matmul
from ..._types import PyTree
from ._elliptic_solver import AbstractPreconditioner, PreparedOperator
from ._grid_transfer import (
    coarsest_shape,
    grid_levels,
    prolong,
    restrict,
    transfer_weights,
)
from ._helmholtz_operator import (
    HelmholtzOperator,
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
    found = pde.poisson(f, square, coefficient=k, solver=pde.Multigrid(), full=True)
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

    cycles: int | None = eqx.field(static=True, default=None)
    smoothing_steps: int = eqx.field(static=True, default=2, kw_only=True)
    rtol: float | None = eqx.field(default=None, kw_only=True)
    max_cycles: int = eqx.field(static=True, default=100, kw_only=True)
    references: ClassVar[tuple[str, ...]] = (
        "10.1090/S0025-5718-1977-0431719-X",
        "10.1016/S0021-9991(03)00194-3",
    )

    def __check_init__(self) -> None:
        for name in ("cycles", "smoothing_steps", "max_cycles"):
            given = getattr(self, name)
            if given is None and name == "cycles":
                continue
            if not isinstance(given, int) or given < 1:
                raise ValueError(f"{name} must be 1 or more, an int, got {given!r}")

    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        del exact
        last = coarsest_shape(system.shape)
        if math.prod(last) <= _tuning.MOST_DENSE_CELLS:
            return ""
        return (
            f"Multigrid() halves a grid of shape {system.shape} down to {last}, which "
            f"has more than {_tuning.MOST_DENSE_CELLS} cells; take a shape with more "
            "factors of two, or PreconditionedKrylov(FastDiagonalization())"
        )

    def prepare(self, system: HelmholtzOperator) -> PyTree:
        _, *coarser = grids = grid_levels(_bound_ghosts(system))
        last = grids[-1]
        eye = jnp.eye(math.prod(last.shape), dtype=last.alpha.dtype)
        columns = jax.vmap(lambda e: last(e.reshape(last.shape)).reshape(-1))(eye)
        scales = [1 / operator_diagonal(level) for level in grids[:-1]]
        weights = [transfer_weights(level) for level in grids[:-1]]
        levels = list(zip(scales, weights, strict=True))
        return coarser, levels, jnp.linalg.inv(columns.T)

    def solve(
        self,
        known: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        if self.cycles is None:
            return self._iterate_to_tolerance(known, operator, b, guess)
        return self._repeat_cycles(known, operator, b, guess), jnp.asarray(self.cycles)

    def apply_preconditioner(self, known: PreparedOperator, b: Array) -> Array:
        return self._repeat_cycles(known, _bound_ghosts(known.system), b, None)

    def _repeat_cycles(
        self,
        known: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        guess: Any,
    ) -> Array:
        x = guess
        for _ in range(self.cycles or 1):
            left = b if x is None else b - operator(x)
            move = self._v_cycle(known, left)
            x = move if x is None else x + move
        return x

    def _iterate_to_tolerance(self, known, operator, b, guess):
        rtol = jnp.finfo(b.dtype).eps ** 0.75 if self.rtol is None else self.rtol
        unit = typical_size(b)
        b = b / unit

        def step(carry):
            x, _, _, n = carry
            move = self._v_cycle(known, b - operator(x))
            x = x + move
            return x, jnp.sum(move**2), jnp.sum(x**2), n + 1

        def wanted(carry):
            _, moved, size, n = carry
            return (moved > rtol**2 * size) & (n < self.max_cycles)

        x = jnp.zeros_like(b) if guess is None else guess / unit
        start = (x, jnp.asarray(jnp.inf, b.dtype), jnp.sum(x**2), jnp.asarray(0))
        x, moved, size, n = jax.lax.while_loop(wanted, step, start)
        return jnp.where(moved <= rtol**2 * size, unit * x, jnp.nan), n

    def _v_cycle(self, known: PreparedOperator, b: Array) -> Array:
        """Return one V-cycle from zero."""
        coarser, levels, inverse = known.state
        grids = [_bound_ghosts(known.system), *coarser]

        def cycle(b):
            return self._cycle(grids, levels, inverse, b)

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
        # Of D⁻¹ A: 2 by Gershgorin, and what the coarser grid is enough for. Measured
        # in two dimensions: 0.15 a cycle, and 0.21 with 1/d, where one axis is rough.
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
