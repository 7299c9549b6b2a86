"""Simplified Newton's method for one stage."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..._linalg import machine_epsilon, max_norm
from ..._types import PyTree
from ...implicit import AbstractLinearSolver, ForwardAdjointSolvers, Krylov, LaggedLU


#: A stage that no iteration improves any more has met its rounding if the last one
#: changed it by less than the precision to this power, 4e-10 in float64.
_ROUNDING = 0.6

#: How well a Krylov method solves for one iteration, relative to the residual: three
#: digits an iteration, where a better solution of a linear system would gain nothing.
_FORCING = 1e-3


class Tolerances(eqx.Module):
    """Tolerances of a stage: its error within `atol` + `rtol` |y|, entry by entry."""

    rtol: float | None
    atol: float | None
    iterations: int = eqx.field(static=True)

    def size(self, change: PyTree[Array], y: PyTree[Array]) -> Array:
        """The largest `change` over what is tolerated."""
        here, eps = max_norm(y), machine_epsilon(y)
        rtol = eps**0.75 if self.rtol is None else self.rtol
        atol = eps**0.85 * here if self.atol is None else self.atol
        tiny = jnp.finfo(here.dtype).tiny
        return max_norm(
            jax.tree.map(
                lambda d, a: d / (atol + rtol * jnp.abs(a) + tiny).astype(d.dtype),
                change,
                y,
            )
        )


class Stage(NamedTuple):
    """An implicit slope, the rate of its iteration, and whether it converged."""

    slope: PyTree[Array]
    rate: Float[Array, ""]
    converged: Bool[Array, ""]


def newton_of_every_stage(linear_solver: AbstractLinearSolver) -> AbstractLinearSolver:
    """The part of a linear solver that solves for steps of Newton's method."""
    if isinstance(linear_solver, ForwardAdjointSolvers):
        linear_solver = linear_solver.forward
    if isinstance(linear_solver, LaggedLU):
        linear_solver = linear_solver.linear_solver
    return linear_solver


def simplified_newton(
    residual: Callable[[PyTree[Array]], PyTree[Array]],
    guess: PyTree[Array],
    point: Callable[[PyTree[Array]], PyTree[Array]],
    solve: Callable[..., PyTree[Array]],
    tolerances: Tolerances,
) -> Stage:
    r"""The slope k where `residual` vanishes, by $k \leftarrow k - \tilde A^{-1} r(k)$.

    `solve(operator, r)` is $\tilde A^{-1} r$, `point(k)` the state that k leads to,
    which is what the tolerances are for. With $\theta$ the ratio of one change to the
    one before, $\theta/(1 - \theta)$ times the last change is left; the iteration is
    given up where the changes grow or will not be small in time.
    """
    infinite = jnp.full_like(max_norm(guess), jnp.inf)
    last = tolerances.iterations

    def step(carry):
        k, before, _, _, _, n = carry
        value, operator = jax.linearize(residual, k)
        change = solve(operator, value)
        k = jax.tree.map(jnp.subtract, k, change)
        y, moved = point(k), _update(point, k, change)
        size = tolerances.size(moved, y)
        rate = jnp.where(n > 0, size / before, jnp.inf)
        small = max_norm(moved) <= machine_epsilon(y) ** _ROUNDING * max_norm(y)
        met = (rate >= 1) & small
        left = jnp.where(rate < 1, size * rate / (1 - rate), jnp.inf)
        converged = (size <= 1) | (left <= 1) | met
        late = (rate < 1) & (left * rate ** (last - 1 - n) > 1)
        lost = (n > 0) & (~(rate <= 2) | (late & ~small))
        return (
            k,
            size,
            rate,
            converged,
            converged | lost | ~jnp.isfinite(size),
            n + 1,
        )

    def wanted(carry):
        return ~carry[4] & (carry[5] < last)

    no = infinite < 0
    start = (guess, infinite, infinite, no, no, jnp.asarray(0))
    k, _, rate, converged, _, n = jax.lax.while_loop(wanted, step, start)
    # One iteration was enough: nothing speaks against the factor.
    return Stage(k, jnp.where(converged & (n < 2), 0, rate), converged)


def linear_solver_of(
    linear_solver: AbstractLinearSolver, factor: Any, scale: Array
) -> Callable[..., Any]:
    """`solve` for `simplified_newton`: by `factor`, or a Krylov method by the operator.

    `scale` corrects for a factor that was made for another length of step.
    """

    def solve(operator, b):
        if isinstance(linear_solver, Krylov):
            tolerance = _FORCING * jnp.sqrt(linear_solver.inner(b, b))
            return linear_solver.solve_to_tolerance(operator, b, tolerance)[0]
        x, _ = linear_solver.solve(factor, operator, b)
        return jax.tree.map(lambda a: scale.astype(a.dtype) * a, x)

    return solve


def _update(point, k: PyTree[Array], change: PyTree[Array]) -> PyTree[Array]:
    return jax.jvp(point, (k,), (change,))[1]
