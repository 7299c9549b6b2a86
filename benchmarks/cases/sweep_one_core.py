"""Sweeps on one core: of thousands of runs, of uneven ones, and how soon one begins."""

import functools
import time
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import nbody, sweeps

from .._harness import Case, Effort, Row, Times, compiled, contest, deviation, ratio
from . import _five_bodies as five
from ._family import family, looping, sweeping, worst
from .orbit_integrators import sweep_of_planets


#: Systems whose states are compared with REBOUND's.
_COMPARED = 4


def measure(effort: Effort) -> list[Row]:
    """Leapfrog and a map of orbits, overhead, the first result, adaptive steps."""
    return [
        *_leapfrog(effort),
        sweep_of_planets(effort, effort.size(4096, 8), effort.size(500, 20), 0.3),
        _first_result(effort),
        *_adaptive(effort),
    ]


CASE = Case("sweep_one_core", __doc__ or "", measure)


def _leapfrog(effort: Effort) -> list[Row]:
    """Beside REBOUND's loop over the runs, and a loop of JAX written for this alone."""
    masses, steps = family(effort.size(4096, 64)), effort.size(10_000, 20)
    times = np.array([steps * five.STEP])
    sweep, hand = sweeping(masses, times), _by_hand(masses, steps, 64)
    first = sweep()
    few = masses[: effort.size(512, 8)]
    found = contest(
        effort, sweep=lambda: sweep, rebound=looping(few, times), hand=lambda: hand
    )
    loop = found["rebound"]
    factor = masses.size / few.size
    whole = Times(loop.best * factor, loop.median * factor, loop.rounds, loop.away)
    what = f"`sweep` of {masses.size} systems of 5 bodies, {steps} steps of leapfrog"
    by_hand = "the same leapfrog in tiles of 64, written by hand and compiled"
    states = [np.asarray(x)[:, None] for x in hand()]
    ours = [first.outputs.positions, first.outputs.velocities]
    return [
        ratio(
            what,
            found["sweep"],
            whole,
            peer=f"REBOUND's loop, that over {few.size} of them taken {factor:g} times",
            target=0.3,
            error=worst(first, masses[:_COMPARED], times),
            reference="REBOUND",
            compile_seconds=first.stats["compile_seconds"],
        ),
        ratio(
            what,
            found["sweep"],
            found["hand"],
            peer=by_hand,
            target=1.05,
            error=deviation(ours, states),
            reference="the loop by hand",
        ),
    ]


def _by_hand(masses: np.ndarray, steps: int, tile: int) -> Callable[[], Any]:
    """Ends of all runs, (run, body, 3): each pair once, runs in the last axis.

    Tiles of 8, 16, 32 and 128 take 3.8, 2.8, 2.6 and 1.2 times as long as of 64.
    """
    m0, *start = (np.asarray(a) for a in five.arrays(five.start()))

    def acceleration(m, x):
        found = [0.0] * 5
        for i in range(5):
            for j in range(i):
                d = x[i] - x[j]
                r2 = (d * d).sum(0)
                pull = d / (r2 * jnp.sqrt(r2))
                found[i], found[j] = found[i] - m[j] * pull, found[j] + m[i] * pull
        return jnp.stack(found)

    def run(planet):
        m = jnp.broadcast_to(m0[:, None], (5, tile)).at[1].set(planet)

        def step(_, state):
            x, v = state
            x = x + five.STEP / 2 * v
            v = v + five.STEP * acceleration(m, x)
            return x + five.STEP / 2 * v, v

        first = tuple(jnp.broadcast_to(a[..., None], (5, 3, tile)) for a in start)
        ends = jax.lax.fori_loop(0, steps, step, first)
        return tuple(jnp.moveaxis(x, -1, 0) for x in ends)

    every = jax.jit(functools.partial(jax.lax.map, run))
    tiles = masses.reshape(-1, tile)
    return lambda: [np.asarray(x).reshape(-1, 5, 3) for x in every(tiles)]


def _first_result(effort: Effort) -> Row:
    """From the call to the first outcomes, all to be compiled, beside one run's."""
    masses, steps = family(effort.size(4096, 64)), effort.size(1000, 20)
    waits, compiles = [], []
    for _ in range(effort.size(5, 1)):
        model, times = five.system(five.start()), np.array([steps * five.STEP])
        method = ds.Method(nbody.WisdomHolman(), step=3.0)

        def predict(model, times=times, method=method):
            return ds.simulate(model, times, method).states

        jax.clear_caches()
        one = compiled(lambda x: predict(five.system(x)), five.start())
        compiles.append(one.compile_seconds)
        jax.clear_caches()
        seen: list[float] = []

        def note(state, seen=seen):
            if state["done"]:
                seen.append(time.perf_counter())

        start = time.perf_counter()
        options = sweeps.SweepOptions(progress=note)
        sweeps.sweep(predict, model, {"bodies.masses[1]": masses}, options=options)
        waits.append(seen[0] - start)
    return Row(
        f"first outcomes of a sweep of {masses.size} systems of 5 bodies by "
        "WisdomHolman, with all that is compiled",
        min(waits) / min(compiles),
        peer="compiling one run",
        target=1.5,
        seconds=min(waits),
        peer_seconds=min(compiles),
    )


def _adaptive(effort: Effort) -> list[Row]:
    """Orbits whose steps differ by more than ten times, in no order."""
    number = effort.size(512, 16)
    random = np.random.default_rng(0)
    nearly_one = np.clip(1 - np.geomspace(1.0, 6e-4, number), 0.0, None)
    eccentricities = random.permutation(nearly_one)
    times, method = np.array([0.0, 60.0]), ds.Method(diffrax.Dopri8())

    def system(e):
        orbit = nbody.Elements(semi_major_axis=jnp.ones(1), eccentricity=e[None])
        return nbody.NBody(nbody.Bodies.from_elements([1.0, 1e-3], orbit))

    def predict(e):
        return ds.simulate(system(e), times, method, throw=False)

    over = {"value": eccentricities}
    sweep = functools.partial(sweeps.sweep, predict, jnp.array(0.1), over)
    first = sweep()
    steps = np.asarray(first.outputs.stats["num_steps"])
    one = jax.jit(lambda e: predict(e).states)
    all_ = jax.jit(jax.vmap(lambda e: predict(e).states))
    longest = float(eccentricities[np.argmax(steps)])
    found = contest(
        effort,
        sweep=lambda: sweep,
        vmap=lambda: lambda: jax.block_until_ready(all_(eccentricities)),
        one=lambda: lambda: jax.block_until_ready(one(longest)),
    )
    # A step by the longest run, whose start and end weigh least.
    factor = float(steps.sum() / steps.max())
    alone = found["one"]
    ideal = Times(alone.best * factor, alone.median * factor, alone.rounds, alone.away)
    what = f"{number} eccentric orbits of {steps.min()} to {steps.max()} adaptive steps"
    peer = "the time of a step of one run, for all their steps"
    details = {key: first.stats[key] for key in ("batch", "order")}
    return [
        ratio(
            f"`sweep` of {what}",
            found["sweep"],
            ideal,
            peer=peer,
            target=1.3,
            details=details,
        ),
        ratio(f"plain `jax.vmap` of {what}", found["vmap"], ideal, peer=peer),
    ]
