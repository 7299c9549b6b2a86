"""Outputs of fixed steps, at times known before a run or traced."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import RESULTS, should_raise
from ..._types import PyTree
from ._checkpointed_adjoint import AbstractScanAdjoint, Checkpointed, Reversible
from ._fixed_steps import GridSteps, scan_segments
from ._plan import FixedStepPlan, RunResult, fixed_step_statistics
from ._reversible_adjoint import scan_reversibly
from ._segment_schedule import ULPS_ON_GRID, Schedule


def fixed_step_outputs(
    grid: GridSteps,
    y0: PyTree[Array],
    side: FixedStepPlan,
    *,
    adjoint: AbstractScanAdjoint | None,
    meter: diffrax.AbstractProgressMeter,
) -> RunResult:
    """States at the outputs of `side`, those off the grid by an extra step."""
    schedule = side.schedule
    if isinstance(adjoint, Reversible) and schedule.segments:
        moving = y0, grid.with_closures(y0)
        kept = scan_reversibly(moving, schedule, meter, should_raise(None))
        result = RESULTS.successful
    else:
        remat = isinstance(adjoint, Checkpointed)
        kept, result = scan_segments(grid, y0, schedule, meter=meter, remat=remat)
    kept = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, kept)
    states = _outputs_on_grid(kept, schedule)
    if side.remainder is not None:
        points, remainder = jnp.asarray(side.points), jnp.asarray(side.remainder)
        states = off_grid_states(grid, states, points, remainder)
    end = jax.tree.map(lambda a: a[-1], kept)
    last, stats = schedule.steps, fixed_step_statistics(schedule.steps)
    return RunResult(states, end, grid.time(last), result, stats, None)


def off_grid_states(
    grid: GridSteps, states: PyTree[Array], points: Array, remainder: Array
) -> PyTree[Array]:
    """The states `remainder` after grid points, by one step of that length each.

    The extra step is not fed back, so an output has the full order of the solver and
    does not disturb the grid; of length zero it is the identity.
    """
    lengths = remainder.astype(grid.begin.dtype)
    return jax.vmap(grid.step.single)(grid.time(points), states, lengths)


def _outputs_on_grid(kept: PyTree[Array], schedule: Schedule) -> PyTree[Array]:
    rows = np.asarray(schedule.rows)
    if np.array_equal(rows, np.arange(1, schedule.segments + 1)):
        return jax.tree.map(lambda a: a[1:], kept)
    if np.array_equal(rows, np.arange(schedule.segments + 1)):
        return kept
    return jax.tree.map(lambda a: a[rows], kept)


def traced_time_outputs(
    grid: GridSteps, y0: PyTree[Array], elapsed: Array, max_steps: int
) -> RunResult:
    """States `elapsed` after the epoch, in the direction of `grid.length`.

    All `max_steps` steps are taken and kept, so memory is `max_steps` states; nothing
    is run where every output lies the other way. Outputs that do lie the other way get
    the initial state.
    """
    length = jnp.asarray(abs(grid.length), elapsed.dtype)
    # `where` and not `maximum`, which halves the derivative at the epoch itself
    ahead = jnp.where(elapsed >= 0, elapsed, 0)
    # A number of steps is no function of time to differentiate; the rest of it is.
    points, on_grid = _grid_steps(jax.lax.stop_gradient(ahead), length)
    reached = jnp.minimum(points, max_steps)
    runs = jnp.any(elapsed > 0)
    kept, result = jax.lax.cond(
        runs,
        lambda y: _states_at_every_step(grid, y, max_steps),
        lambda y: _constant_states(y, max_steps),
        y0,
    )
    states = jax.tree.map(lambda a: a[reached], kept)
    remainder = ahead - reached * length
    # On the grid exactly none: less its own value, held so that the derivative by time
    # stays. Second ones of an extra step as short as a rounding would be roundings.
    exact = remainder - jax.lax.stop_gradient(remainder)
    remainder = jnp.where(on_grid & (points == reached), exact, remainder)
    remainder = remainder * (1 if grid.length > 0 else -1)
    states = off_grid_states(grid, states, reached, remainder)
    farthest = jnp.max(reached)
    end = jax.tree.map(lambda a: a[farthest], kept)
    too_far = jnp.any(points > max_steps)
    result = RESULTS.where(too_far, RESULTS.times_beyond_max_steps, result)
    stats = fixed_step_statistics(jnp.where(runs, max_steps, 0))
    return RunResult(states, end, grid.time(farthest), result, stats, None)


def _grid_steps(ahead: Array, length: Array) -> tuple[Array, Array]:
    """Whole steps to each time, and whether it is on the grid but for rounding."""
    ratio = ahead / length
    nearest = jnp.rint(ratio)
    rounding = ULPS_ON_GRID * jnp.finfo(ratio.dtype).eps * ratio
    on_grid = jnp.abs(ratio - nearest) <= rounding
    return jnp.where(on_grid, nearest, jnp.floor(ratio)).astype(int), on_grid


def _states_at_every_step(grid: GridSteps, y0: PyTree[Array], steps: int):
    def one(carry, n):
        carry = grid.advance(carry, n)
        return carry, grid.state(carry, n + 1)

    last, after = jax.lax.scan(one, grid.start(y0), jnp.arange(steps))
    kept = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, after)
    return kept, RESULTS.successful if last.result is None else last.result


def _constant_states(y0: PyTree[Array], steps: int):
    kept = jax.tree.map(lambda a: jnp.broadcast_to(a, (steps + 1, *a.shape)), y0)
    return kept, RESULTS.successful
