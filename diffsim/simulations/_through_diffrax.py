"""A run by Diffrax's solvers: the only call to `diffrax.diffeqsolve`."""

from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._adaptive_loop import AdaptiveRun, adaptive_run, is_run_here
from ._both_modes import Derivatives, in_both_modes
from ._dynamics import moves_with_time
from ._explicit import is_runge_kutta
from ._guard import guarded
from ._leg import Leg
from ._method import with_root_tolerances
from ._plan import DiffraxSide, Plan
from ._replay import Recorded, Recording, replay_of, run_again, steps_between
from ._replay_reverse import pull_back
from ._request import Request


#: States that reverse mode keeps of a run whose number of steps nobody has bounded: as
#: many as take each of 4096 steps twice, and each of 125 000 three times.
CHECKPOINTS = 90

#: Bytes that states kept for reverse mode may take where all have their place.
_MEMORY = 2**28

STATS = ("num_steps", "num_accepted_steps", "num_rejected_steps")


def diffrax_leg(
    request: Request, side: DiffraxSide, *, span: tuple[Array, Array], times: Array
) -> Leg:
    """States at `times`, which lie in order in the `span` of elapsed time."""
    method, meter = request.plan.method, request.meter
    bare = method.adjoint is None and isinstance(meter, diffrax.NoProgressMeter)
    replays = bare and _is_replayed(request, side.max_steps)

    def run(adjoint, inputs):
        simulation, method, controller, epoch, y0, span, times = inputs
        saved = {
            "states": diffrax.SubSaveAt(ts=times),
            "end": diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (t, y)),
            "ends": diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: t),
        }
        if replays:
            saved["kept"] = diffrax.SubSaveAt(steps=steps_between(side.max_steps))
        solution = _solved(
            request._replace(
                simulation=simulation, plan=Plan(method, None), epoch=epoch, y0=y0
            ),
            DiffraxSide(side.outputs, side.max_steps, controller),
            span,
            saveat=diffrax.SaveAt(subs=saved),
            adjoint=adjoint,
        )
        stats = {name: solution.stats[name] for name in STATS}
        assert solution.ys is not None
        return solution.ys, RESULTS.promote(solution.result), stats

    simulation, y0 = request.simulation, request.y0
    inputs = (simulation, method, side.controller, request.epoch, y0, span, times)
    if method.adjoint is not None:
        found, result, stats = run(method.adjoint, inputs)
    elif bare:
        given = method.max_steps is not None
        checkpoints = None if given else CHECKPOINTS
        derivatives = _BY_REPLAY if replays else None
        here = is_run_here(method.solver, side.controller, simulation.terms())
        every = steps_between(side.max_steps) if replays else None
        value = partial(_without_derivatives, side.max_steps, every) if here else None
        found, result, stats = in_both_modes(
            run, inputs, checkpoints, derivatives, value
        )
    else:
        # A meter is an effect, which a primitive cannot have.
        found, result, stats = run(diffrax.DirectAdjoint(), inputs)
    reached, end = jax.tree.map(lambda a: a[-1], found["end"])
    # Where there were steps enough it is the last time, whose derivative is one.
    fine = result == RESULTS.successful
    end_time = jnp.where(fine, span[1], jax.lax.stop_gradient(reached))
    # Where the steps ended is bookkeeping: the controller chose them.
    ends = jax.lax.stop_gradient(found["ends"])
    return Leg(found["states"], end, end_time, result, stats, ends)


def _without_derivatives(max_steps: int, every: int | None, inputs: Any) -> Any:
    simulation, method, controller, epoch, y0, span, times = inputs
    found, result, stats = adaptive_run(
        AdaptiveRun(
            method.solver,
            epoch.shift(simulation.terms()),
            controller,
            simulation,
            y0,
            span,
            times,
            method.step,
            max_steps,
            every,
        )
    )
    return found, RESULTS.promote(result), stats


def _is_replayed(request: Request, max_steps: int) -> bool:
    """Whether derivatives are taken along the steps of the run."""
    explicit = is_runge_kutta(request.plan.method.solver)
    if not explicit or not moves_with_time(request.simulation.terms()):
        return False
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(request.y0))
    return 2 * steps_between(max_steps) * size <= _MEMORY


def _replay(inputs: Any) -> Any:
    simulation, method, _, epoch, y0, span, times = inputs
    terms = epoch.shift(simulation.terms())
    return replay_of(method.solver, terms, y0, simulation, span, times)


def _push(inputs: Any, seen: Any) -> Any:
    found, result, stats = seen
    replay = _replay(inputs)
    recorded = Recorded.of(found["ends"], replay.span, replay.times)
    states, end = run_again(replay, recorded)
    end = found["end"][0], jax.tree.map(lambda a: a[None], end)
    return found | {"states": states, "end": end}, result, stats


def _pull(build: Any, moving: Any, seen: Any, bars: Any) -> list[Array]:
    recording = Recording(seen[0]["ends"], seen[0]["kept"])
    states, (_, end) = bars[0]["states"], bars[0]["end"]
    end = jax.tree.map(lambda a: a[0], end)
    return pull_back(lambda *x: _replay(build(*x)), moving, recording, (states, end))


_BY_REPLAY = Derivatives(_push, _pull)


def diffrax_steps(
    request: Request,
    side: DiffraxSide,
    span: tuple[Array, Array],
    *,
    until: diffrax.Event | None,
) -> tuple[Array, PyTree[Any], Any, dict[str, Array]]:
    """Ends of the steps, padded with infinity, states there, result and statistics."""
    given = request.plan.method.adjoint
    solution = _solved(
        request,
        side,
        span,
        saveat=diffrax.SaveAt(steps=True),
        adjoint=diffrax.DirectAdjoint() if given is None else given,
        until=until,
    )
    result = solution.result
    stopped = result == diffrax.RESULTS.event_occurred
    good: Any = diffrax.RESULTS
    result = good.where(stopped, good.successful, result)
    stats = {name: solution.stats[name] for name in STATS}
    assert solution.ts is not None
    return solution.ts, solution.ys, RESULTS.promote(result), stats


def _solved(
    request: Request, side: DiffraxSide, span, *, saveat, adjoint, until=None
) -> diffrax.Solution:
    t0, t1 = span
    method = request.plan.method
    solver = method.solver
    if not method.adaptive:
        solver = with_root_tolerances(solver, request.epoch.dtype)
    return diffrax.diffeqsolve(
        request.epoch.shift(request.simulation.terms()),
        solver,
        t0,
        t1,
        None if method.step is None else jnp.where(t1 >= t0, 1, -1) * method.step,
        request.y0,
        request.simulation,
        saveat=saveat,
        stepsize_controller=guarded(side.controller, t0.dtype),
        adjoint=adjoint,
        event=until,
        max_steps=side.max_steps,
        throw=False,
        progress_meter=request.meter,
    )
