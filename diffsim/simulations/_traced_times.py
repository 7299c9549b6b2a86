"""Fixed steps to traced times: the grid is run to its bound, then looked up."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._fixed_steps import side_steps
from ._leg import Leg, fixed_stats
from ._schedule import ULPS_ON_GRID
from ._stepper import Stepper


def traced_leg(
    stepper: Stepper, y0: PyTree[Array], elapsed: Array, max_steps: int
) -> Leg:
    """States `elapsed` after the epoch, in the direction of `stepper.step`.

    All `max_steps` steps are taken and kept, so memory is `max_steps` states; nothing
    is run where every output lies the other way. Outputs that do lie the other way get
    the initial state.
    """
    length = jnp.asarray(abs(stepper.step), elapsed.dtype)
    # `where` and not `maximum`, which halves the derivative at the epoch itself
    ahead = jnp.where(elapsed >= 0, elapsed, 0)
    # A number of steps is no function of time to differentiate; the rest of it is.
    points, on_grid = _grid_steps(jax.lax.stop_gradient(ahead), length)
    reached = jnp.minimum(points, max_steps)
    runs = jnp.any(elapsed > 0)
    kept, result = jax.lax.cond(
        runs,
        lambda y: _every_step(stepper, y, max_steps),
        lambda y: _standing(y, max_steps),
        y0,
    )
    states = jax.tree.map(lambda a: a[reached], kept)
    beyond = ahead - reached * length
    # On the grid exactly none: less its own value, held so that the derivative by time
    # stays. Second ones of a side step as short as a rounding would be roundings.
    exact = beyond - jax.lax.stop_gradient(beyond)
    beyond = jnp.where(on_grid & (points == reached), exact, beyond)
    beyond = beyond * (1 if stepper.step > 0 else -1)
    states = side_steps(stepper, states, reached, beyond)
    farthest = jnp.max(reached)
    end = jax.tree.map(lambda a: a[farthest], kept)
    too_far = jnp.any(points > max_steps)
    result = RESULTS.where(too_far, RESULTS.times_beyond_max_steps, result)
    stats = fixed_stats(jnp.where(runs, max_steps, 0))
    return Leg(states, end, stepper.time(farthest), result, stats, None)


def _grid_steps(ahead: Array, length: Array) -> tuple[Array, Array]:
    """Whole steps to each time, and whether it is on the grid but for rounding."""
    ratio = ahead / length
    nearest = jnp.rint(ratio)
    rounding = ULPS_ON_GRID * jnp.finfo(ratio.dtype).eps * ratio
    on_grid = jnp.abs(ratio - nearest) <= rounding
    return jnp.where(on_grid, nearest, jnp.floor(ratio)).astype(int), on_grid


def _every_step(stepper: Stepper, y0: PyTree[Array], steps: int):
    def one(carry, n):
        carry = stepper.advance(carry, n)
        return carry, stepper.state(carry)

    last, after = jax.lax.scan(one, stepper.start(y0), jnp.arange(steps))
    kept = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, after)
    return kept, RESULTS.successful if last.result is None else last.result


def _standing(y0: PyTree[Array], steps: int):
    kept = jax.tree.map(lambda a: jnp.broadcast_to(a, (steps + 1, *a.shape)), y0)
    return kept, RESULTS.successful
