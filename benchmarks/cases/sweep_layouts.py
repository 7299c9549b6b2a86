"""`sweep(batch="auto")` beside every tile, one `jax.vmap` and a loop over the runs."""

import dataclasses
import time
from collections.abc import Callable

import jax
import numpy as np

import diffsim as ds
from diffsim import integrators
from diffsim.sweeps import Sweep, sweep

from .._harness import Case, Effort, Row, contest, ratio
from . import _five_bodies as five
from ._family import family, worst


#: None is `jax.vmap` of all runs, and 1 a loop over them.
OTHERS = (8, 16, 32, 64, None, 1)
#: Rounds at each number of runs; of a million only the two best tiles are run.
ROUNDS = {1_000: 7, 10_000: 3, 100_000: 1, 1_000_000: 1}
STEPS = 1000


def measure(effort: Effort) -> list[Row]:
    """For every number of runs: the time of runs alone, and of all with compiling."""
    rows = []
    for runs, rounds in ROUNDS.items():
        others = OTHERS if runs < 10**6 else (16, 32)
        short = dataclasses.replace(effort, rounds=rounds, seconds=0.0)
        rows += _beside(short, effort.size(runs, 8), others)
    return rows


def _beside(effort: Effort, runs: int, others: tuple) -> list[Row]:
    steps = effort.size(STEPS, 10)
    times, masses = np.array([steps * five.STEP]), family(runs)
    auto = _sweeping(masses, times, "auto")
    turns = {_name(batch): _sweeping(masses, times, batch) for batch in others}
    first, cold = _cold(auto)
    found = contest(
        effort, auto=lambda: auto, **{k: _turn(f) for k, f in turns.items()}
    )
    best = min(turns, key=lambda name: found[name].best)
    least = found[best].best
    compiling = _cold(turns[best])[1] - least
    what = f"{runs} systems of 5 bodies, {steps} steps"
    return [
        ratio(
            f"`sweep` of {what}",
            found["auto"],
            found[best],
            peer=f"{best}, the best of {len(others)} layouts",
            target=1.2,
            error=worst(first, masses[:4], times),
            reference="REBOUND",
            compile_seconds=first.stats["compile_seconds"],
            details={name: time.best for name, time in found.items()},
        ),
        Row(
            f"first `sweep` of {what}, with all that it compiles",
            cold / (1.2 * least + compiling),
            peer=f"1.2 × {best} and one compilation",
            target=1.0,
            seconds=cold,
            peer_seconds=1.2 * least + compiling,
        ),
    ]


def _name(batch: int | None) -> str:
    names = {None: "`jax.vmap`", 1: "a loop"}
    return names.get(batch, f"tiles of {batch}")


def _sweeping(masses, times, batch) -> Callable[[], Sweep]:
    model = five.system(five.start())
    method = ds.Method(integrators.Leapfrog(), step=five.STEP)

    def predict(model):
        return ds.simulate(model, times, method).states

    return lambda: sweep(predict, model, {"bodies.masses[1]": masses}, batch=batch)


def _turn(run: Callable[[], Sweep]) -> Callable[[], Callable[[], Sweep]]:
    return lambda: run


def _cold(run: Callable[[], Sweep]) -> tuple[Sweep, float]:
    """A call in which everything is compiled, and its seconds."""
    jax.clear_caches()
    start = time.perf_counter()
    found = run()
    return found, time.perf_counter() - start


CASE = Case("sweep_layouts", __doc__ or "", measure)
