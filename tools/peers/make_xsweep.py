"""Kill sweeps of xsweep and of diffsim, let them go on, and count what was lost.

    pip install xsweep "diffsim[store]"
    taskset -c 0 python tools/peers/make_xsweep.py    # five minutes

Each of both libraries' sweeps of one function is killed ten times by SIGKILL, at
moments drawn with a seed, twice of them before the first run, and started again by the
same call. The function itself writes down which runs it is called for. Times are of
uninterrupted sweeps that write nothing down, and of the same calls of the same compiled
function without a sweep around; all are measured in turns.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import jax
import numpy as np
import xarray
from _record import write
from _swept_oscillator import (
    FREQUENCIES,
    KINDS,
    RUNS,
    TOGETHER,
    exact_positions,
    position,
)


KILLS, ROUNDS = 10, 7
#: Of the time of the whole sweep, which one process gets at most.
SHARE = 0.12
#: One kill of so many comes before the first run.
EARLY = 5
FORMULA = (
    "x(20) of x'' = -ω² x from rest at 1, by 20000 steps of leapfrog, for 4096 ω; "
    "lost: missing or off by 1e-9; repeated: calls of the function beyond one a run"
)


class Killed:
    """A sweep by processes that are killed, its store and the log of its runs."""

    def __init__(self, kind: str, folder: pathlib.Path):
        self.kind, self.store, self.log = kind, folder / "runs.zarr", folder / "log"
        self.counts = {"kills": 0, "before_first_run": 0, "refused": 0, "locks_left": 0}

    def start(self) -> subprocess.Popen:
        script = pathlib.Path(__file__).with_name("_swept_oscillator.py")
        self.log.touch()
        command = [sys.executable, script, self.kind, self.store, self.log]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def wait_for_runs(self, process: subprocess.Popen, before: int):
        while self.log.stat().st_size == before and process.poll() is None:
            time.sleep(1e-4)

    def uninterrupted(self) -> tuple[float, float]:
        """Seconds up to the first run, and from there on."""
        process, begin = self.start(), time.perf_counter()
        self.wait_for_runs(process, 0)
        first = time.perf_counter()
        assert process.wait() == 0
        return first - begin, time.perf_counter() - first

    def kill_at(self, early: bool, seconds: float):
        """Goes on, until so long after the start or the first run."""
        before = self.log.stat().st_size if self.log.exists() else 0
        process = self.start()
        if not early:
            self.wait_for_runs(process, before)
        try:
            refused = process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.counts["kills"] += 1
            self.counts["before_first_run"] += self.log.stat().st_size == before
            self.counts["locks_left"] += self.store.with_name("runs.zarr.lock").exists()
            return
        if refused:
            self.begin_again()
            self.kill_at(early, seconds)

    def begin_again(self):
        """What is left to do where a store is refused."""
        self.counts["refused"] += 1
        shutil.rmtree(self.store)

    def finish(self):
        if self.start().wait() != 0:
            self.begin_again()
            assert self.start().wait() == 0

    def found(self) -> dict:
        calls = np.fromfile(self.log)
        assert set(calls.tolist()) <= set(FREQUENCIES.tolist())
        positions = xarray.open_zarr(self.store, consolidated=False).position.values
        # NaN, where nothing is stored, is off as well.
        lost = RUNS - np.sum(np.abs(positions - exact_positions()) < 1e-9)
        repeated = len(calls) - len(np.unique(calls))
        return {"lost": lost, "repeated": repeated, **self.counts}


def kill_and_resume(kind: str, seed: int) -> dict:
    draw = np.random.default_rng(seed).uniform(size=KILLS)
    with tempfile.TemporaryDirectory() as folder:
        startup, whole = Killed(kind, pathlib.Path(folder)).uninterrupted()
    with tempfile.TemporaryDirectory() as folder:
        sweep = Killed(kind, pathlib.Path(folder))
        for index, u in enumerate(draw):
            early = index % EARLY == 0
            sweep.kill_at(early, u * (startup if early else SHARE * whole))
        sweep.finish()
        found = sweep.found()
    print(kind, f"{startup:.3f} + {whole:.3f} s", found, flush=True)
    return found


def by_points():
    """The function alone, as xsweep calls it."""
    call = jax.jit(position)
    return lambda: [float(call(x)) for x in FREQUENCIES.tolist()]


def by_tiles():
    """The function alone, for groups of runs."""
    call, tiles = jax.jit(jax.vmap(position)), FREQUENCIES.reshape(-1, TOGETHER)
    return lambda: [np.asarray(call(x)) for x in tiles]


def into_new_store(sweep: Callable[[str], None]) -> Callable[[], float]:
    def seconds():
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            sweep(os.path.join(folder, "runs.zarr"))
            return time.perf_counter() - begin

    return seconds


def alone(call: Callable) -> Callable[[], float]:
    def seconds():
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return seconds


def overheads() -> dict:
    """Microseconds a run that a sweep takes beyond the function, start-up excluded."""
    calls = {kind: into_new_store(make()) for kind, make in KINDS.items()}
    calls |= {"points": alone(by_points()), "tiles": alone(by_tiles())}
    for call in calls.values():
        call()  # compiles
    rounds = [{name: call() for name, call in calls.items()} for _ in range(ROUNDS)]
    least = {name: min(times[name] for times in rounds) for name in calls}

    def beyond(times: dict, kind: str) -> float:
        pointwise = kind.startswith("xsweep") and "batches" not in kind
        return times[kind] - times["points" if pointwise else "tiles"]

    ratios = {
        f"{one}_over_{other}": np.median(
            [beyond(t, one) / beyond(t, other) for t in rounds]
        )
        for one, other in (
            ("xsweep", "diffsim"),
            ("xsweep_chunks_32", "diffsim_chunks_32"),
            ("xsweep_batches_32", "diffsim_chunks_32"),
            ("xsweep_chunks_512", "diffsim_chunks_512"),
        )
    }
    micro = 1e6 / RUNS
    return {
        "formula": "(sweep less the function alone) / runs; ratios: medians of rounds",
        "rounds": ROUNDS,
        "microseconds": {kind: beyond(least, kind) * micro for kind in KINDS},
        "function_alone": {name: least[name] * micro for name in ("points", "tiles")},
        "ratios": ratios,
    }


def main():
    jax.config.update("jax_enable_x64", True)
    problems: dict = {}
    for seed, kind in enumerate(KINDS):
        found = kill_and_resume(kind, seed)
        problems[kind] = {"formula": FORMULA, "runs": RUNS, "seed": seed, **found}
    problems["overhead"] = overheads()
    print(problems["overhead"])
    write("xsweep", ("xsweep", "diffsim", "jax", "xarray", "zarr"), problems)


if __name__ == "__main__":
    main()
