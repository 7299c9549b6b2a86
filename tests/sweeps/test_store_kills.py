"""Stores outlive SIGKILLs and full disks, and what is too large for the memory."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.sweeps import SweepOptions, sweep


zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")

ENVIRONMENT = os.environ | {"DIFFSIM_UNCHECKED": "1", "PYTHONUNBUFFERED": "1"}


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate("\n")
    assert process.returncode == 0, err
    return out


def files_of(path):
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.suffix != ".lock"
    }


#: A part of a sweep of 240 chunks of 4 runs, which logs every run that it computes.
#: The first chunks of a process follow each other as fast as they are written, so that
#: it is killed meanwhile; then there is time to start the next one.
RUNS, SIZE, KILLS = 960, 4, 20
KILLED = """
    import os, sys, time, jax, jax.numpy as jnp, numpy as np, xarray, zarr
    jax.config.update("jax_enable_x64", True)
    from diffsim.sweeps import SweepOptions, sweep

    path, log, runs, size, *part = sys.argv[1:]
    descriptor, noted = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 0

    def note(numbers):
        global noted
        noted += 1
        text = "".join(f"{x:.0f} " for x in np.ravel(numbers))
        os.write(descriptor, text.encode())
        while noted > 12 and not os.path.exists(log + ".hurry"):
            time.sleep(0.1)
        return numbers

    def predict(model):
        shape = jax.ShapeDtypeStruct((), float)
        number = jax.pure_callback(
            note, shape, model["number"], vmap_method="expand_dims"
        )

        def step(carry, _):
            x, v = carry
            v = v - 0.01 * number * x
            return (x + 0.01 * v, v), x

        start = jnp.ones(4), jnp.zeros(4)
        (x, v), passed = jax.lax.scan(step, start, None, length=30)
        return {"x": x, "passed": passed}

    options = SweepOptions(
        chunk=int(size), memory=20_000, part=tuple(map(int, part)) or None
    )
    print("ready")
    sys.stdin.readline()
    found = sweep(
        predict,
        {"number": jnp.array(0.0)},
        {"number": np.arange(float(runs))},
        batch=int(size),
        store=path,
        options=options,
    )
    print(found.stats["chunks"], found.stats["computed"])
"""


class Part:
    """Processes that are killed and followed by others, and what they have logged."""

    def __init__(self, path, number):
        self.store, self.log = path / "runs.zarr", path / f"log{number}"
        self.number = number
        self.logged = 0
        #: What had an entry at the last kill, and how many chunks were lost at each.
        self.done, self.lost = set(), []
        self.following = self.spare()
        self.go_on()

    def spare(self):
        return start(KILLED, self.store, self.log, RUNS, SIZE, self.number, 2)

    def go_on(self):
        """With a process that has imported everything; another one begins to."""
        self.process, self.following = self.following, self.spare()
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self, delay, begin):
        """After a time, counted from the first chunk that is computed or from begin."""
        while begin and self.process.poll() is None and self.size == self.logged:
            time.sleep(0.001)
        time.sleep(delay)
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        self.check()

    @property
    def size(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def check(self):
        """Compare what was computed since the last kill with what was done by then."""
        logged = self.log.read_bytes()[self.logged :].split() if self.size else []
        self.logged = self.size
        chunks = [int(run) // SIZE for run in logged[::SIZE]]
        assert len(chunks) == len(set(chunks))
        assert not set(chunks) & self.done
        entries = {int(x.stem) for x in (self.store / "manifest").glob("[0-9]*.json")}
        self.done = {chunk for chunk in entries if chunk % 2 == self.number}
        self.lost.append(len(set(chunks) - self.done))


@pytest.mark.slow
def test_store_killed_twenty_times_equals_the_uninterrupted_one(tmp_path):
    """No chunk but those in flight is computed twice.

    These are one that is computed, one that is handed over, two that wait to be written
    and one that is.
    """
    random, began = np.random.default_rng(29), time.perf_counter()
    whole = tmp_path / "whole.zarr"
    (tmp_path / "log.hurry").touch()
    finish(start(KILLED, whole, tmp_path / "log", RUNS, SIZE))
    parts, kills = [Part(tmp_path, number) for number in (0, 1)], 0
    while kills < KILLS:
        victims = [parts, parts[:1], parts[1:]][random.integers(3)]
        for part in victims:
            # Compiling takes most of the time, and computing is what may be lost.
            part.kill(random.uniform(0, 0.3), begin=random.random() < 0.8)
            kills += 1
        for part in victims:
            part.go_on()
    for part in parts:
        part.log.with_suffix(".hurry").touch()
        finish(part.process)
        part.check()
        part.following.kill()
        part.following.communicate()
    lost = [part.lost for part in parts]
    print(f"{kills} kills; lost by each: {lost}; {time.perf_counter() - began:.0f} s")
    assert lost[0].pop() == lost[1].pop() == 0
    assert max(sum(lost, [])) <= 5
    assert files_of(tmp_path / "runs.zarr") == files_of(whole)
    dataset = xarray.open_zarr(tmp_path / "runs.zarr")
    assert dataset.x.chunks[0] == (SIZE,) * (RUNS // SIZE)
    assert (dataset.status == 0).all()
    computed = sum(len(part.log.read_text().split()) for part in parts) // SIZE
    assert computed == RUNS // SIZE + sum(map(sum, lost))
