"""Stores outlive SIGKILLs and full disks, and what is too large for the memory."""

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import jax.numpy as jnp
import numpy as np
import pytest
from stored_springs import content

from diffsim.sweeps import sweep


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
        self.logged = self.compared = 0
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
        """Compare what was computed since the last kill with what was done by then.

        The first run is one of these, and compared with the store.
        """
        logged = self.log.read_bytes()[self.logged :].split() if self.size else []
        self.logged = self.size
        chunks = [int(run) // SIZE for run in logged[::SIZE]]
        if chunks and self.done:
            assert chunks.pop(0) == min(self.done)
            self.compared += 1
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
    assert max(map(max, lost)) <= 5
    assert content(tmp_path / "runs.zarr") == content(whole)
    dataset = xarray.open_zarr(tmp_path / "runs.zarr")
    assert dataset.x.chunks[0] == (SIZE,) * (RUNS // SIZE)
    assert (dataset.status == 0).all()
    computed = sum(len(part.log.read_text().split()) for part in parts) // SIZE
    compared = sum(part.compared for part in parts)
    assert computed == RUNS // SIZE + sum(map(sum, lost)) + compared


LARGE = """
    import sys, jax, jax.numpy as jnp, numpy as np
    jax.config.update("jax_enable_x64", True)
    from diffsim.sweeps import SweepOptions, sweep

    def predict(model):
        def step(x, _):
            return 0.5 * x + model["rate"], None

        x = jax.lax.scan(step, model["rate"], None, length=10)[0]
        return x * jnp.ones(2500)

    found = sweep(
        predict,
        {"rate": jnp.array(0.0)},
        {"rate": np.arange(1e5)},
        store=sys.argv[1],
    )
    assert found.stats["computed"] == 100_000
    # getrusage would count what the process was forked from
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_2_gb_of_outputs_are_streamed_through_less_than_1_gb(tmp_path):
    """Chunks of 128 MiB; 0.23 GB are taken by what is imported, 0.58 in all."""
    peak = 1024 * int(finish(start(LARGE, tmp_path / "runs.zarr")))
    output = xarray.open_zarr(tmp_path / "runs.zarr").output
    assert output.nbytes == 100_000 * 20_000
    assert peak <= 1e9
    # 1 + 1/2 + ..., of ten halvings
    last = output[-1].values
    np.testing.assert_array_equal(last, (2 - 2**-10) * 99_999)
    print(f"{peak / 1e9:.2f} GB")


@pytest.mark.slow
def test_million_runs_of_which_one_in_a_hundred_fails():
    rates = np.arange(1e6)
    rates[7::100] *= -1

    def predict(model):
        return jnp.sqrt(model["rate"])

    found = sweep(predict, {"rate": jnp.array(0.0)}, {"rate": rates})
    assert len(found) == 10**6
    fails = np.arange(10**6) % 100 == 7
    np.testing.assert_array_equal(found.successful, ~fails)
    np.testing.assert_allclose(found.outputs[~fails] ** 2, rates[~fails], rtol=1e-15)
    assert np.isnan(found.outputs[fails]).all()
    failures = found.failures
    assert [one.run for one in failures] == np.flatnonzero(fails).tolist()
    assert [one.parameters["rate"] for one in failures] == rates[fails].tolist()
    assert "990000 successful, 10000 failed" in str(found)
    assert "run 7: rate = -7.\n" in str(found)


HOST = """
    import sys, jax, numpy as np
    port, index, count, path = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    if int(count) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", int(count), int(index))
    from diffsim.sweeps import SweepOptions, sweep
    import jax.numpy as jnp

    def predict(model):
        def step(carry, _):
            x, v = carry
            v = v - 0.1 * model["rate"] * x
            return (x + 0.1 * v, v), None

        x, v = jax.lax.scan(step, (jnp.ones(2), jnp.zeros(2)), None, length=50)[0]
        return {"x": x, "low": model["rate"] < 1, "v": v.astype(jnp.float32)}

    model, over = {"rate": jnp.array(1.0)}, {"rate": np.linspace(0.5, 1.5, 101)}
    over["rate"][3] = np.nan
    options = SweepOptions(chunk=8)
    for name in ("memory", "store"):
        store = None if name == "memory" else path + ".zarr"
        found = sweep(predict, model, over, batch=4, store=store, options=options)
        leaves = jax.tree.leaves((found.outputs, found.status, found.parameters))
        np.savez(f"{path}-{name}-{index}-{count}.npz", *leaves)
        print(found.stats["computed"])
"""


def free_port():
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        return opened.getsockname()[1]


@pytest.mark.slow
def test_processes_of_jax_distributed_return_all_runs_as_one_does(tmp_path):
    port, path = free_port(), tmp_path / "runs"
    processes = [start(HOST, port, i, 2, path) for i in range(2)]
    # Gloo says on the same stream to whom it is connected.
    printed = [finish(process).split()[-2:] for process in processes]
    # 13 chunks of 8 runs, the last of 5
    assert printed == [["53", "53"], ["48", "48"]]
    shutil.move(f"{path}.zarr", f"{path}-of-two.zarr")
    assert finish(start(HOST, port, 0, 1, path)).split() == ["101", "101"]
    with np.load(f"{path}-memory-0-1.npz") as expected:
        assert len(expected["arr_0"]) == 101
        for name in ("memory-0-2", "memory-1-2", "store-0-2", "store-1-2", "store-0-1"):
            with np.load(f"{path}-{name}.npz") as found:
                assert list(found) == list(expected)
                for key in expected:
                    assert found[key].dtype == expected[key].dtype
                    assert found[key].tobytes() == expected[key].tobytes()
    of_two = tmp_path / "runs-of-two.zarr"
    assert content(of_two) == content(tmp_path / "runs.zarr")


DISK = """
    import os, subprocess, sys, jax, jax.numpy as jnp, numpy as np
    jax.config.update("jax_enable_x64", True)
    from diffsim.sweeps import SweepOptions, sweep

    disk, other = sys.argv[1:]

    def mount(*options):
        subprocess.run(["mount", "-t", "tmpfs", "-o", *options, disk], check=True)

    def run(path):
        def predict(model):  # 8 kB that do not become less by being compressed
            return jax.random.uniform(model["key"], 1000)

        keys = jax.random.split(jax.random.key(0), 400)
        options = SweepOptions(chunk=4, memory=100_000)
        model = {"key": jax.random.key(0)}
        found = sweep(
            predict, model, {"key": keys}, batch=4, store=path, options=options
        )
        return found.stats["computed"]

    def attempt(kind):
        try:
            run(disk + "/runs.zarr")
        except OSError as error:
            print(kind, error.errno, error)

    mount("size=2m", "disk")
    attempt("full")
    mount("remount,ro,size=2m", "disk")
    attempt("read-only")
    mount("remount,rw,size=64m", "disk")
    print(run(disk + "/runs.zarr"), run(other + "/whole.zarr"))
    subprocess.run(["cp", "-r", disk + "/runs.zarr", other], check=True)
"""


def may_mount():
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare")
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="disks may not be mounted here")
def test_full_and_read_only_disks_are_explained_and_what_is_there_stays(tmp_path):
    """A disk of 2 MB in the memory, for 3.2 MB; then there is room."""
    disk, other = tmp_path / "disk", tmp_path / "other"
    disk.mkdir(), other.mkdir()
    own = ["unshare", "-rm", sys.executable, "-W", "error", "-c"]
    found = subprocess.run(
        [*own, textwrap.dedent(DISK), disk, other],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    full, read_only, computed = found.stdout.splitlines()
    assert full.startswith(f"full {errno.ENOSPC} ")
    assert "cannot be written (No space left on device)" in full
    assert read_only.startswith(f"read-only {errno.EROFS} ")
    assert "cannot be written (Read-only file system)" in read_only
    chunks = [
        int(re.search(r"(\d+) chunks are in it", x)[1]) for x in (full, read_only)
    ]
    assert chunks[0] == chunks[1] > 20
    assert [int(x) for x in computed.split()] == [400 - 4 * chunks[0], 400]
    assert content(other / "runs.zarr") == content(other / "whole.zarr")
