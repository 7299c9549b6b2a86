"""Outputs of a run at fixed steps, at any times."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._adjoints import AbstractScanAdjoint, Checkpointed, Reversible
from ._leg import Leg, fixed_stats
from ._pieces import scan_pieces
from ._plan import FixedSide
from ._reversible import reversible
from ._schedule import Schedule
from ._stepper import Stepper, with_closures


def fixed_leg(
    stepper: Stepper,
    y0: PyTree[Array],
    side: FixedSide,
    *,
    adjoint: AbstractScanAdjoint | None,
    meter: diffrax.AbstractProgressMeter,
) -> Leg:
    """States at the outputs of `side`, those beyond a grid point by a side step."""
    schedule = side.schedule
    if isinstance(adjoint, Reversible) and schedule.pieces:
        kept = reversible((y0, with_closures(stepper, y0)), schedule, meter)
        result = RESULTS.successful
    else:
        remat = isinstance(adjoint, Checkpointed)
        kept, result = scan_pieces(stepper, y0, schedule, meter=meter, remat=remat)
    kept = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, kept)
    states = _taken(kept, schedule)
    if side.beyond is not None:
        points, beyond = jnp.asarray(side.points), jnp.asarray(side.beyond)
        states = side_steps(stepper, states, points, beyond)
    end = jax.tree.map(lambda a: a[-1], kept)
    steps = schedule.steps
    return Leg(states, end, stepper.time(steps), result, fixed_stats(steps), None)


def side_steps(
    stepper: Stepper, states: PyTree[Array], points: Array, beyond: Array
) -> PyTree[Array]:
    """The states `beyond` grid points, by one step of that length each.

    A side step is not fed back, so an output has the full order of the solver and does
    not disturb the grid; of length zero it is the identity.
    """
    return jax.vmap(stepper.aside)(stepper.time(points), states, beyond)


def _taken(kept: PyTree[Array], schedule: Schedule) -> PyTree[Array]:
    rows = np.asarray(schedule.rows)
    if np.array_equal(rows, np.arange(1, schedule.pieces + 1)):
        return jax.tree.map(lambda a: a[1:], kept)
    if np.array_equal(rows, np.arange(schedule.pieces + 1)):
        return kept
    return jax.tree.map(lambda a: a[rows], kept)
