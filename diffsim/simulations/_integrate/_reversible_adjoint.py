"""Adjoint of a time-symmetric run by running it backwards."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import nan_unless
from ..._types import PyTree
from ._fixed_steps import (
    GridSteps,
    scan_segments,
    segment_length,
    steps_per_segment,
    unroll_factor,
)
from ._segment_schedule import Schedule
from ._step import StepState


#: What is said of a run that does not come back to its start.
_LOST = (
    "Reversible: the run, stepped backwards from its end, came to another start than "
    "it had, and its gradient would be wrong. Rounding grows on the way back through "
    "damping and chaos, and a force may not be the same backwards: take "
    "adjoint=simulations.Checkpointed(), or leave adjoint=None."
)


@eqx.filter_custom_vjp
def scan_reversibly(
    y0_and_grid: tuple[PyTree[Array], GridSteps],
    schedule: Schedule,
    meter: diffrax.AbstractProgressMeter,
    raises: bool,
) -> PyTree[Array]:
    """States after each segment; the derivative keeps only the last of them.

    The derivative of a run that does not come back to its start is NaN; with `raises`
    it is an error.
    """
    del raises
    y0, grid = y0_and_grid
    return scan_segments(grid, y0, schedule, meter=meter)[0]


@scan_reversibly.def_fwd
def _forward(perturbed, y0_and_grid, schedule, meter, raises):
    del perturbed
    kept = scan_reversibly(y0_and_grid, schedule, meter, raises)
    return kept, jax.tree.map(lambda a: a[-1], kept)


@scan_reversibly.def_bwd
def _backward(last, kept_bar, perturbed, y0_and_grid, schedule, meter, raises):
    del perturbed, meter
    grid = y0_and_grid[1]
    grid_bar = jax.tree.map(jnp.zeros_like, eqx.filter(grid, eqx.is_inexact_array))
    kept_bar = _fill_cotangents(kept_bar, last, schedule.segments)
    steps = jnp.asarray(schedule.steps)
    inner = grid.start(last, steps).y
    inner_bar = jax.tree.map(jnp.zeros_like, inner)
    carry = (inner, inner_bar, grid_bar, steps, _sizes(inner))
    floating, rest = eqx.partition(grid, eqx.is_inexact_array)

    def state(inner, floating, n):
        return eqx.combine(floating, rest).state(StepState(inner), n)

    def start(y, floating):
        return eqx.combine(floating, rest).start(y).y

    def segment(carry, xs):
        count, arriving = xs
        inner, inner_bar, grid_bar, n, sizes = carry
        _, pull = jax.vjp(lambda z, f: state(z, f, n), inner, floating)
        inner_bar, grid_bar = jax.tree.map(
            jnp.add, (inner_bar, grid_bar), pull(arriving)
        )
        carry = (inner, inner_bar, grid_bar, n, sizes)
        return _segment_vjp(grid, schedule.size, carry, count), None

    xs = (steps_per_segment(schedule), kept_bar)
    carry, _ = jax.lax.scan(segment, carry, xs, reverse=True)
    inner, inner_bar, grid_bar, n, sizes = carry
    first = grid.state(StepState(inner), n)
    _, pull = jax.vjp(start, first, floating)
    y_bar, more = pull(inner_bar)
    bars = y_bar, jax.tree.map(jnp.add, grid_bar, more)
    lost = _is_lost(inner, start(y0_and_grid[0], floating), sizes)
    if raises:
        bars = eqx.error_if(bars, lost, _LOST)
    return nan_unless(bars, ~lost)


def _is_lost(first: PyTree[Array], start: PyTree[Array], sizes: PyTree[Array]) -> Array:
    """Whether a run came back to another start, by 1e-6 of the largest it has been.

    A velocity may be zero at both ends, after a whole period.
    """

    def one(first, start, size):
        allowed = jnp.finfo(start.dtype).eps ** 0.384 * size
        return ~jnp.all(jnp.abs(first - start) <= allowed)

    return jnp.any(jnp.stack(jax.tree.leaves(jax.tree.map(one, first, start, sizes))))


def _sizes(y: PyTree[Array]) -> PyTree[Array]:
    """The largest entry of each leaf."""
    return jax.tree.map(lambda a: jnp.max(jnp.abs(a), initial=0), y)


def _fill_cotangents(
    kept_bar: PyTree, last: PyTree[Array], segments: int
) -> PyTree[Array]:
    """Cotangents of all states, zeros for those that nothing was made of."""
    zeros = jax.tree.map(lambda a: jnp.zeros((segments, *a.shape), a.dtype), last)
    given = jax.tree.leaves(kept_bar, is_leaf=lambda x: x is None)
    leaves, structure = jax.tree.flatten(zeros)
    filled = [a if b is None else b for a, b in zip(leaves, given, strict=True)]
    return jax.tree.unflatten(structure, filled)


def _segment_vjp(grid: GridSteps, size: int, carry, count):
    floating, rest = eqx.partition(grid, eqx.is_inexact_array)

    def advance(y, floating, n, length):
        moving = eqx.combine(floating, rest)
        return moving.advance(StepState(y), n, length).y

    def one(carry, index):
        y, y_bar, grid_bar, n, sizes = carry
        length = segment_length(grid, index, count)
        before = n - (1 if count is None else (index < count))
        y = grid.retreat(StepState(y), n, before, length).y
        _, pull = jax.vjp(lambda y, f: advance(y, f, before, length), y, floating)
        y_bar, more = pull(y_bar)
        grid_bar = jax.tree.map(jnp.add, grid_bar, more)
        sizes = jax.tree.map(jnp.maximum, sizes, _sizes(y))
        return (y, y_bar, grid_bar, before, sizes), None

    indices = None if count is None else jnp.arange(size)
    unroll = unroll_factor(grid, carry[0])
    return jax.lax.scan(one, carry, indices, length=size, unroll=unroll, reverse=True)[
        0
    ]
