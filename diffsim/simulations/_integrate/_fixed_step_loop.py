"""Loop over fixed steps: a scan of segments, each a scan of steps."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._results import RESULTS
from ..._types import PyTree
from ._explicit_step import AbstractSplittingSolver
from ._fixed_stepper import Stepper, with_closures
from ._segment_schedule import Schedule
from ._unsynchronized_solver import AbstractUnsynchronizedSolver


def scan_segments(
    stepper: Stepper,
    y0: PyTree[Array],
    schedule: Schedule,
    *,
    meter: diffrax.AbstractProgressMeter,
    remat: bool = False,
) -> tuple[PyTree[Array], RESULTS]:
    """States after each segment, and the result; differentiable in both modes.

    With `remat` only the states between segments are stored for reverse mode.
    """
    if schedule.segments == 0:
        empty = jax.tree.map(lambda a: jnp.zeros((0, *a.shape), a.dtype), y0)
        return empty, RESULTS.successful

    size, block = schedule.size, _block_size(stepper, y0, schedule.size)
    stepper = with_closures(stepper, y0) if block > 1 else stepper

    def segment(carry, count):
        if block > 1:
            return _small_segment(stepper, carry, count, size, block)
        return _unrolled_segment(stepper, carry, count, size)

    segment = jax.checkpoint(segment) if remat else segment

    def metered(carry, xs):
        carry, ticks = carry
        number, count = xs
        carry = segment(carry, count)
        ticks = meter.step(ticks, number / schedule.segments)
        return (carry, ticks), stepper.state(*carry)

    first = (stepper.start(y0), jnp.asarray(0))
    numbers = jnp.arange(1, schedule.segments + 1)
    (last, ticks), kept = jax.lax.scan(
        metered, (first, meter.init()), (numbers, steps_per_segment(schedule))
    )
    meter.close(ticks)
    result = last[0].result
    return kept, RESULTS.successful if result is None else result


def steps_per_segment(schedule: Schedule) -> Array | None:
    """Steps taken in each segment; None where every segment is full."""
    return None if schedule.counts is None else jnp.asarray(schedule.counts)


def segment_length(stepper: Stepper, index: Array | None, count: Array | None) -> Array:
    """The step at `index` of a segment: zero, the identity, once `count` are taken."""
    step = jnp.asarray(stepper.step, stepper.begin.dtype)
    if index is None or count is None:
        return step
    return jnp.where(index < count, step, 0)


def unroll_factor(stepper: Stepper, y: PyTree[Array]) -> int:
    """Steps per turn of the loop, so that its overhead does not show."""
    if isinstance(stepper.solver, AbstractUnsynchronizedSolver):
        # A Kepler step is long, to run and to compile.
        return 1
    small = sum(x.size for x in jax.tree.leaves(y)) <= _tuning.NUMBERS_WRITTEN_OUT
    if small and isinstance(stepper.solver, AbstractSplittingSolver):
        return max(1, _tuning.STEPS_WRITTEN_OUT // stepper.solver.evaluations)
    return 1


def _unrolled_segment(stepper: Stepper, carry, count, size: int):
    """`size` steps, of which `count` are taken; all if it is None."""
    unroll = unroll_factor(stepper, carry[0].y)
    return _scan_steps(stepper, size, carry, count, unroll=unroll)


@eqx.filter_custom_jvp
def _small_segment(stepper: Stepper, carry, count, size: int, block: int):
    """The same steps either way: at once if run, in blocks if differentiated."""
    del block
    return _unrolled_segment(stepper, carry, count, size)


@_small_segment.def_jvp
def _small_segment_jvp(primals, tangents):
    return eqx.filter_jvp(_segment_in_blocks, primals, tangents)


def _segment_in_blocks(stepper: Stepper, carry, count, size: int, block: int):
    blocks, rest = divmod(size, block)

    def steps(carry, done):
        left = None if count is None else count - done
        return _scan_steps(stepper, block, carry, left, unroll=2), None

    done = None if count is None else block * jnp.arange(blocks)
    carry = jax.lax.scan(steps, carry, done, length=blocks)[0]
    if not rest:
        return carry
    left = None if count is None else count - block * blocks
    if rest == 1:
        # A loop of one turn would be written out between the kernels of all others.
        left = jnp.asarray(1) if left is None else jnp.minimum(left, 1)
    return _scan_steps(stepper, max(rest, 2), carry, left, unroll=1)


def _block_size(stepper: Stepper, y: PyTree[Array], size: int) -> int:
    """Steps in a block, 1 where blocks do not pay."""
    largest = max(x.size * x.dtype.itemsize for x in jax.tree.leaves(y))
    block = _tuning.BLOCK_BYTES // max(1, largest)
    solver = stepper.solver
    pays = isinstance(solver, AbstractSplittingSolver)
    pays &= not isinstance(solver, AbstractUnsynchronizedSolver)
    return block if pays and _tuning.LEAST_BLOCK <= block < size else 1


def _scan_steps(stepper: Stepper, size: int, carry, count, *, unroll: int):
    def one(carry, index):
        state, n = carry
        # What is not explicit is a whole step, and dropped where none is to be taken.
        length = segment_length(stepper, index, count) if stepper.explicit else None
        after = stepper.advance(state, n, length)
        if count is None:
            return (after, n + 1), None
        taken = index < count
        if not stepper.explicit:
            # a step of length zero would overwrite what the solver remembers
            after = jax.tree.map(lambda a, b: jnp.where(taken, a, b), after, state)
        return (after, n + taken), None

    indices = None if count is None else jnp.arange(size)
    return jax.lax.scan(one, carry, indices, length=size, unroll=unroll)[0]
