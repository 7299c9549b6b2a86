"""Devices share the runs of a sweep, and each has its own pace.

JAX divides the processor before it starts, so a process of its own runs the sweeps,
once, and the tests read what it found.
"""

import json
import os
import subprocess
import sys

import pytest


_SCRIPT = """
import json, sys, warnings

import diffrax, jax, jax.numpy as jnp, numpy as np

import diffsim as ds
from diffsim import problems, sweeps
from diffsim.sweeps import _chunked_run
from diffsim.sweeps._batching import Task, run_tiles
from diffsim.sweeps._devices import mesh_of
from diffsim.sweeps._swept_parameters import swept_parameters

ds.configure(enable_x64=True, num_cpu_devices=2)
warnings.simplefilter("error")
one, both = jax.devices()[:1], jax.devices()
found = {}


def same(a, b):
    a, b = map(jax.tree.leaves, (a, b))
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


def spring(model):
    def step(carry, _):
        x, v = carry
        v = v - 0.01 * model["k"] * jnp.sin(x)
        return (x + 0.01 * v, v), None

    start = jnp.ones(3), jnp.zeros(3)
    return jax.lax.scan(step, start, None, length=60)[0]


model = {"k": jnp.array(1.0), "n": 3, "key": jax.random.key(0)}
over = {"k": np.linspace(0.1, 4.0, 37)}  # neither even nor a multiple of a tile
of_springs, of_stiff = json.loads(sys.argv[1])
for batch in of_springs:
    alone = ds.sweep(spring, model, over, batch=batch, devices=one)
    shared = ds.sweep(spring, model, over, batch=batch)
    found[f"uneven {batch}"] = same(alone.outputs, shared.outputs)
found["devices"] = alone.stats["devices"], shared.stats["devices"]
found["default"] = ds.sweep(spring, model, over).stats["devices"]
chosen = ds.sweep(spring, model, over, devices=both[1:])
found["second"] = same(chosen.outputs, alone.outputs) or float(
    np.max(np.abs(chosen.outputs[0] - alone.outputs[0]))
)


def stiff(problem):
    method = ds.Method(diffrax.Dopri5(), max_steps=500)
    return ds.simulate(problem, 1.0, method)


# Steps from 10 to the most: one device is done long before the other, one run fails.
stiffness = {"epsilon": np.array([1.0, 0.5, 0.1, 1e-2, 5e-3, 1e-5, 2.0])}
for batch in of_stiff:
    alone = ds.sweep(stiff, problems.kaps(), stiffness, batch=batch, devices=one)
    shared = ds.sweep(stiff, problems.kaps(), stiffness, batch=batch)
    found[f"steps {batch}"] = float(
        np.nanmax(np.abs(alone.outputs.states - shared.outputs.states))
    )
    found[f"failed {batch}"] = np.flatnonzero(~shared.successful).tolist()

# No collective anywhere in the program, so that none is in a loop.
runs = swept_parameters(model, over)
task = Task(spring, model, runs.selection)
table = jax.tree.map(lambda x: jnp.asarray(x[:32]).reshape(8, 4, -1), runs.table)
layout = sweeps._batching.BatchLayout("last", 4)
counts, mesh = jnp.ones(2, jnp.int32), mesh_of(both)
text = run_tiles.lower(task, table, counts, layout, mesh).compile().compiled.as_text()
words = "all-reduce", "all-gather", "all-to-all", "collective", "reduce-scatter"
found["collectives"] = [word for word in words if word in text]

# One device stops to answer: the other goes on, and nothing is lost.
warnings.simplefilter("always")
start, lost = _chunked_run.ChunkMemory.start, []


def failing(self, rows, fitting, counts):
    if len(self.devices) == 2 and not lost:
        lost.append(True)
        raise jax.errors.JaxRuntimeError("INTERNAL: device 1 fell off the bus")
    return start(self, rows, fitting, counts)


_chunked_run.ChunkMemory.start = failing
_chunked_run.answering = lambda devices: tuple(devices[:1])
with warnings.catch_warnings(record=True) as caught:
    left = ds.sweep(spring, model, over, batch=4)
found["survived"] = same(left.outputs, ds.sweep(spring, model, over, batch=4).outputs)
found["said"] = [str(w.message) for w in caught]
found["left"] = left.stats["devices"]
lost.clear()
_chunked_run.answering = lambda devices: tuple(devices)
try:
    ds.sweep(spring, model, over, batch=4)
except jax.errors.JaxRuntimeError as error:
    found["raised"] = str(error)
print(json.dumps(found))
"""


def found_with(of_springs, of_stiff):
    batches = json.dumps([of_springs, of_stiff])
    command = [sys.executable, "-c", _SCRIPT, batches]
    run = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def found():
    return found_with([4], [2])


def test_uneven_shares_of_devices_are_the_runs_of_one(found):
    assert found["uneven 4"] is True


def test_all_local_devices_take_part_unless_some_are_named(found):
    assert found["devices"] == [1, 2]
    assert found["default"] == 2
    assert found["second"] is True or found["second"] < 1e-14


def test_devices_take_the_steps_that_their_own_runs_need(found):
    # law 5 of the library: batched = single to 1e-12
    assert found["steps 2"] < 1e-12
    assert found["failed 2"] == [5]


@pytest.mark.slow
def test_runs_of_devices_are_those_of_one_in_tiles_of_any_size():
    found = found_with([1, 16], [1, None])
    assert all(found[f"uneven {batch}"] is True for batch in (1, 16))
    assert all(found[f"steps {batch}"] < 1e-12 for batch in (1, None))
    assert all(found[f"failed {batch}"] == [5] for batch in (1, None))


def test_no_device_waits_for_another_inside_the_program(found):
    assert found["collectives"] == []


def test_sweep_goes_on_without_a_device_that_failed(found):
    assert found["survived"] is True
    assert found["left"] == 1
    (said,) = found["said"]
    assert "fell off the bus" in said
    assert "the sweep goes on with 1 of 2 devices" in said


def test_errors_of_devices_that_all_answer_are_raised(found):
    assert "fell off the bus" in found["raised"]
