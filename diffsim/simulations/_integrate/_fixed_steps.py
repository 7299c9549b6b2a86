"""Fixed steps: their grid, and the loop, a scan of segments, each a scan of steps."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._results import RESULTS
from ..._types import PyTree
from .._elapsed_time import Epoch
from .._method import with_root_tolerances
from .._simulation import AbstractSimulation
from .._terms._operator_splitting import AbstractSplitFlows
from ._segment_schedule import Schedule
from ._step import AbstractStep, Span, SplittingStep, StepState, make_step


class GridSteps(eqx.Module):
    """Steps of a simulation on the grid `begin + n length`; `length` has a sign.

    The time of a step is a product, not a sum of steps.
    """

    step: AbstractStep
    begin: Array
    length: float = eqx.field(static=True)
    rematerializes: bool = eqx.field(static=True)

    def __init__(
        self,
        simulation: AbstractSimulation,
        solver: diffrax.AbstractSolver,
        epoch: Epoch,
        length: float,
        y0: PyTree[Array],
    ):
        self.begin, self.length = epoch.zero, length
        self.rematerializes = simulation.rematerialize_steps
        # Once a run: what terms work out from the parameters stays out of the loop.
        self.step = make_step(
            with_root_tolerances(solver, epoch.dtype),
            epoch.shift(simulation.terms()),
            simulation,
            y0,
            "fixed",
            length=jnp.full_like(self.begin, length),
        )

    def time(self, n) -> Array:
        """Time of grid point `n`."""
        return self.begin + jnp.asarray(n, self.begin.dtype) * self.length

    def span(self, n, length=None) -> Span:
        """The step from grid point `n`, of another length than the grid's if given."""
        length = self.length if length is None else length
        return Span(self.time(n), jnp.asarray(length, self.begin.dtype))

    def start(self, y: PyTree[Array], n=0) -> StepState:
        """Before the first step, at grid point `n`."""
        span = self.span(n)
        state = self.step.start(span, y)
        if self.step.identity_at_zero:
            return state
        state = state._replace(result=RESULTS.successful)
        may_fail: list[bool] = []

        def after():
            # Asked inside: what comes out is a shape, which is never traced.
            behind = self.step.advance(state, span)
            may_fail.append(behind.result.is_traced())
            return behind.y

        eqx.filter_eval_shape(after)
        return state if may_fail[0] else state._replace(result=None)

    def advance(self, state: StepState, n, length=None) -> StepState:
        """A step from grid point `n`, of another length than the grid's if given."""
        step = self.step.advance_on_grid if length is None else self.step.advance
        # What a step searched for is stored: it took longer to find than memory takes.
        if self.rematerializes and state.result is None:
            step = eqx.filter_checkpoint(step, prevent_cse=False)
        return step(state, self.span(n, length))

    def retreat(self, state: StepState, n, before, length) -> StepState:
        """From grid point `n` back to the one `before`: a step of `length` undone."""
        return self.step.retreat(state, Span(self.time(before), length, self.time(n)))

    def state(self, state: StepState, n) -> PyTree[Array]:
        """The state of the simulation at grid point `n`."""
        return self.step.state(state, self.span(n))

    def with_closures(self, y0: PyTree[Array]) -> "GridSteps":
        """The same with what terms close over as their leaves.

        A derivative rule knows only its arguments; `lambda t, x, args: -self.k * x`
        would hide `self.k` from it.
        """
        terms = self.step.terms
        if not isinstance(terms, AbstractSplitFlows):
            return self
        terms = terms.with_closures_as_leaves(self.begin, y0, self.step.args)
        return eqx.tree_at(lambda s: s.step.terms, self, terms)


def scan_segments(
    grid: GridSteps,
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

    size, block = schedule.size, _block_size(grid, y0, schedule.size)
    grid = grid.with_closures(y0) if block > 1 else grid

    def segment(carry, count):
        if block > 1:
            return _small_segment(grid, carry, count, size, block)
        return _unrolled_segment(grid, carry, count, size)

    segment = jax.checkpoint(segment) if remat else segment

    def metered(carry, xs):
        carry, ticks = carry
        number, count = xs
        carry = segment(carry, count)
        ticks = meter.step(ticks, number / schedule.segments)
        return (carry, ticks), grid.state(*carry)

    first = (grid.start(y0), jnp.asarray(0))
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


def segment_length(grid: GridSteps, index: Array | None, count: Array | None) -> Array:
    """The step at `index` of a segment: zero, the identity, once `count` are taken."""
    length = jnp.asarray(grid.length, grid.begin.dtype)
    if index is None or count is None:
        return length
    return jnp.where(index < count, length, 0)


def unroll_factor(grid: GridSteps, y: PyTree[Array]) -> int:
    """Steps per turn of the loop, so that its overhead does not show."""
    # A Kepler step is long, to run and to compile.
    if isinstance(grid.step, SplittingStep):
        small = sum(x.size for x in jax.tree.leaves(y)) <= _tuning.NUMBERS_WRITTEN_OUT
        most = _tuning.STEPS_WRITTEN_OUT if small else 1
        return max(1, most // grid.step.solver.evaluations)
    return 1


def _unrolled_segment(grid: GridSteps, carry, count, size: int):
    """`size` steps, of which `count` are taken; all if it is None."""
    unroll = unroll_factor(grid, carry[0].y)
    return _scan_steps(grid, size, carry, count, unroll=unroll)


@eqx.filter_custom_jvp
def _small_segment(grid: GridSteps, carry, count, size: int, block: int):
    """The same steps either way: at once if run, in blocks if differentiated."""
    del block
    return _unrolled_segment(grid, carry, count, size)


@_small_segment.def_jvp
def _small_segment_jvp(primals, tangents):
    return eqx.filter_jvp(_segment_in_blocks, primals, tangents)


def _segment_in_blocks(grid: GridSteps, carry, count, size: int, block: int):
    blocks, rest = divmod(size, block)

    def steps(carry, done):
        left = None if count is None else count - done
        return _scan_steps(grid, block, carry, left, unroll=2), None

    done = None if count is None else block * jnp.arange(blocks)
    carry = jax.lax.scan(steps, carry, done, length=blocks)[0]
    if not rest:
        return carry
    left = None if count is None else count - block * blocks
    if rest == 1:
        # A loop of one turn would be written out between the kernels of all others.
        left = jnp.asarray(1) if left is None else jnp.minimum(left, 1)
    return _scan_steps(grid, max(rest, 2), carry, left, unroll=1)


def _block_size(grid: GridSteps, y: PyTree[Array], size: int) -> int:
    """Steps in a block, 1 where blocks do not pay."""
    largest = max(x.size * x.dtype.itemsize for x in jax.tree.leaves(y))
    block = _tuning.BLOCK_BYTES // max(1, largest)
    pays = isinstance(grid.step, SplittingStep)
    return block if pays and _tuning.LEAST_BLOCK <= block < size else 1


def _scan_steps(grid: GridSteps, size: int, carry, count, *, unroll: int):
    def one(carry, index):
        state, n = carry
        # Other steps are whole, and dropped where none is to be taken.
        length = (
            segment_length(grid, index, count) if grid.step.identity_at_zero else None
        )
        after = grid.advance(state, n, length)
        if count is None:
            return (after, n + 1), None
        taken = index < count
        if not grid.step.identity_at_zero:
            # a step of length zero would overwrite what the solver remembers
            after = jax.tree.map(lambda a, b: jnp.where(taken, a, b), after, state)
        return (after, n + taken), None

    indices = None if count is None else jnp.arange(size)
    return jax.lax.scan(one, carry, indices, length=size, unroll=unroll)[0]
