"""Chunks fit into memory, and the fastest layout is chosen."""

import os
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.sweeps import SweepOptions, _chunk_memory, _chunked_run, sweep
from diffsim.sweeps._batching import BatchLayout, Task
from diffsim.sweeps._chunked_run import Chunks
from diffsim.sweeps._layout_choice import batch_layouts, complete_in_fastest
from diffsim.sweeps._swept_parameters import Rows, swept_parameters


pytestmark = pytest.mark.optimized


_ROWS = np.arange(100.0)


def _ramp(x):
    """8 kB out of 8 bytes in."""
    return x[0] * jnp.ones(1000)


def _chunks_of(predict, memory, rows=_ROWS):
    runs = swept_parameters(jnp.ones(1), {"[0]": rows})
    task = Task(predict, jnp.ones(1), runs.selection)
    return Chunks(task, runs.table, memory, lambda runs, found: None)


def _spring(x):
    def step(carry, _):
        position, speed = carry
        speed = speed - 0.01 * x * position
        return (position + 0.01 * speed, speed), None

    return jax.lax.scan(step, (jnp.ones(x.shape), x), None, length=50)[0]


@pytest.mark.parametrize("batch", ["auto", None, 8])
def test_chunks_stay_within_the_memory_limit(batch):
    memory = 200_000
    found = sweep(
        _ramp,
        jnp.ones(1),
        {"[0]": _ROWS},
        batch=batch,
        options=SweepOptions(memory=memory),
    )
    np.testing.assert_array_equal(found.outputs[:, 7], _ROWS)
    # at least outputs / memory
    assert found.stats["chunks"] >= 100 * 8000 / memory


def test_chunk_size_follows_the_memory_of_the_compiled_program():
    chunks = _chunks_of(_ramp, 200_000)
    fitting = chunks.sizes.fitting(BatchLayout("first", 100))
    assert chunks.sizes.needed(fitting) <= 200_000
    # not needlessly small: a quarter of what the outputs alone would allow
    assert fitting.layout.tile * fitting.capacity >= 200_000 / 8000 / 4


def test_memory_below_that_of_one_run_gives_chunks_of_one_run():
    run = SweepOptions(memory=1000)
    found = sweep(_ramp, jnp.ones(1), {"[0]": _ROWS[:3]}, options=run)
    assert found.stats["chunks"] == 3


def test_chunk_that_is_over_when_it_is_begun_takes_no_time_of_others(monkeypatch):
    """As a CPU does what looks like little work; else speeds are wrong by a factor."""
    chunks = _chunks_of(_spring, 10**9, np.ones(1000))
    layout = BatchLayout("first", 10)
    clock, run_tiles = [0.0], _chunk_memory.run_tiles
    chunks.sizes.fitting(layout)
    monkeypatch.setattr(_chunked_run.time, "perf_counter", lambda: clock[0])

    def at_once(*inputs):
        clock[0] += 1.0
        return jax.block_until_ready(run_tiles(*inputs))

    monkeypatch.setattr(_chunk_memory, "run_tiles", at_once)
    one, other = chunks._start(layout, 1), chunks._start(layout, 1)
    clock[0] += 100.0
    overhead = one.fitting.overhead
    for chunk in (one, other):
        assert chunks._finish(chunk) == (1.0 - overhead) / 10
    assert chunks.run_seconds == 2.0


def test_overhead_of_an_empty_chunk_is_not_counted_as_run_time(monkeypatch):
    """One tile of 10⁵ takes as long as all outputs; the other layouts look no better.

    A clock that only an empty chunk moves: a run costs nothing, and nothing else is
    worth its compilation.
    """
    chunks = _chunks_of(_spring, 10**9, np.ones(100_000))
    clock, run_tiles = [0.0], _chunk_memory.run_tiles
    monkeypatch.setattr(_chunked_run.time, "perf_counter", lambda: clock[0])

    def slow(*inputs):
        clock[0] += 1.0  # whatever is run
        return run_tiles(*inputs)

    slow.lower = run_tiles.lower
    monkeypatch.setattr(_chunk_memory, "run_tiles", slow)
    candidates = [
        BatchLayout("first", 16),
        BatchLayout("first", 64),
        BatchLayout("single", 1),
    ]
    assert complete_in_fastest(chunks, candidates, lambda: None) == candidates[0]
    assert set(chunks.sizes.sizes) == {candidates[0]}


def test_timing_noise_of_an_empty_chunk_does_not_choose_the_layout(monkeypatch):
    """Empty chunks take 1 s and up to 0.3 s more; runs of the first layout 1 ms, of the
    other 2 ms, so that a tile is over within the noise of an empty chunk.
    """
    chunks = _chunks_of(_spring, 10**9, np.ones(100_000))
    clock, run_tiles = [0.0], _chunk_memory.run_tiles
    noise = iter(np.tile([0.0, 0.0, 0.3, 0.0, 0.3, 0.0], 100).tolist())
    monkeypatch.setattr(_chunked_run.time, "perf_counter", lambda: clock[0])

    def slow(task, table, counts, layout, mesh):
        each = {16: 1e-3, 1: 2e-3}[layout.tile]
        clock[0] += 1.0 + next(noise) + each * layout.tile * int(counts.sum())
        return run_tiles(task, table, counts, layout, mesh)

    slow.lower = run_tiles.lower
    monkeypatch.setattr(_chunk_memory, "run_tiles", slow)
    candidates = [BatchLayout("first", 16), BatchLayout("single", 1)]
    assert complete_in_fastest(chunks, candidates, lambda: None) == candidates[0]


def test_chunk_size_is_extrapolated_linearly_from_two_measurements():
    # m0 = 1000, m1 = 10
    assert _chunk_memory.size_that_fits([(100, 2000), (60, 1600)], 1200) == 20
    assert _chunk_memory.size_that_fits([(100, 2000)], 1000) == 45


class _Small:
    """A device whose memory holds so many runs side by side, on the host."""

    def __init__(self, most):
        self.most, self.sizes = most, []

    def __call__(self, x):
        def check(value):
            self.sizes.append(value.size)
            if value.size > self.most:
                raise MemoryError("RESOURCE_EXHAUSTED: Out of memory")
            return value

        shape = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(check, shape, x[0], vmap_method="expand_dims")


def test_running_out_of_memory_halves_the_chunk():
    device = _Small(30)
    found = sweep(device, jnp.ones(1), {"[0]": _ROWS}, batch=None)
    np.testing.assert_array_equal(found.outputs, _ROWS)
    # 100, 50, then what fits
    assert sorted(set(device.sizes)) == [25, 50, 100]


def test_running_out_of_memory_with_one_run_is_raised():
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        sweep(_Small(0), jnp.ones(1), {"[0]": _ROWS[:4]}, batch=None)


def test_other_errors_are_not_taken_for_out_of_memory():
    def check(value):
        raise RuntimeError("another")

    def predict(x):
        return jax.pure_callback(check, x[0], x[0], vmap_method="expand_dims")

    with pytest.raises(jax.errors.JaxRuntimeError, match="another"):
        sweep(predict, jnp.ones(1), {"[0]": _ROWS[:4]})


def test_no_run_is_repeated_and_the_last_tile_is_padded():
    sizes = []

    def predict(x):
        def note(value):
            sizes.append(value.shape)
            return value

        shape = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(note, shape, x[0], vmap_method="expand_dims")

    found = sweep(predict, jnp.ones(1), {"[0]": _ROWS[:10]}, batch=4)
    np.testing.assert_array_equal(found.outputs, _ROWS[:10])
    assert sizes == [(4,)] * 3


_of_a_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="tiles of a cache are those of a CPU"
)


def _candidates(predict, runs=100, batch="auto", model=None):
    model = jnp.ones(1) if model is None else model
    task = Task(
        predict, model, swept_parameters(model, {"[0]": np.ones(runs)}).selection
    )
    return batch_layouts(task.jaxpr(Rows(jnp.ones(1), None)), runs, batch)


@_of_a_cpu
def test_small_loops_start_batch_last_in_tiles_that_fit_the_cache():
    first, *others = _candidates(_spring)
    assert first == BatchLayout("last", 50)  # two tiles, not one of 64 and one of 36
    assert BatchLayout("single", 1) in others
    assert any(layout.order == "first" for layout in others)


@_of_a_cpu
def test_large_loops_start_with_single_runs():
    def predict(x):
        return _spring(x * jnp.ones(2000))

    assert _candidates(predict)[0] == BatchLayout("single", 1)


@_of_a_cpu
def test_while_loops_start_with_single_runs():
    def predict(x):
        return jax.lax.while_loop(lambda y: y[0] < 9, lambda y: y * 2, x)

    assert _candidates(predict)[0] == BatchLayout("single", 1)


def test_a_gpu_has_all_runs_at_once_and_uneven_ones_in_buckets(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def uneven(x):
        return jax.lax.while_loop(lambda y: y[0] < 9, lambda y: y * 2, x)

    assert _candidates(_spring, runs=10**5) == [BatchLayout("elements", 10**5)]
    assert _candidates(uneven, runs=10**5) == [BatchLayout("first", 12_500)]
    assert _candidates(uneven, runs=4000) == [BatchLayout("first", 1024)]


def test_batch_number_fixes_the_tile_and_none_takes_all_runs():
    assert _candidates(_spring, batch=12) == [BatchLayout("last", 12)]
    assert _candidates(_spring, batch=1) == [BatchLayout("single", 1)]
    assert _candidates(_spring, runs=5, batch=12) == [BatchLayout("last", 5)]
    assert _candidates(_spring, batch=None) == [BatchLayout("first", 100)]


def _with_speeds(monkeypatch, speeds):
    """Chunks whose layouts take so many seconds per run, and compile in none."""
    chunks = _chunks_of(_spring, 2**30, rows=np.ones(1000))
    used = []

    def start(self, layout, tiles):
        used.append(layout)
        runs = min(self.table.runs - self.begun, tiles * layout.tile)
        self.begun += runs
        found = types.SimpleNamespace(layout=layout, runs=runs, seconds=None)
        return found if runs else None

    def finish(self, chunk):
        self.done += chunk.runs
        return speeds[chunk.layout]

    monkeypatch.setattr(Chunks, "_start", start)
    monkeypatch.setattr(Chunks, "_finish", finish)
    return chunks, used


_A, _B, _C = BatchLayout("last", 8), BatchLayout("first", 8), BatchLayout("single", 1)


def test_fastest_layout_is_used_for_long_sweeps(monkeypatch):
    chunks, used = _with_speeds(monkeypatch, {_A: 1.0, _B: 0.2, _C: 3.0})
    assert complete_in_fastest(chunks, [_A, _B, _C], lambda: None) == _B
    assert set(used[3:]) == {_B}


def test_short_sweeps_compile_one_layout_only(monkeypatch):
    chunks, used = _with_speeds(monkeypatch, {_A: 1e-3, _B: 1e-4, _C: 1e-4})
    assert complete_in_fastest(chunks, [_A, _B, _C], lambda: None) == _A
    assert set(used) == {_A}


def test_progress_counts_up_to_all_runs():
    seen = []
    rows = _ROWS.copy()
    rows[2] = np.nan
    run = SweepOptions(progress=seen.append, memory=200_000)
    sweep(_ramp, jnp.ones(1), {"[0]": rows}, options=run)
    done = [state["done"] for state in seen]
    assert done == sorted(done)
    assert seen[-1]["done"] == seen[-1]["runs"] == 100
    assert seen[-1]["failed"] == 1


def test_progress_line_ends_when_the_sweep_does(capsys):
    sweep(_ramp, jnp.ones(1), {"[0]": _ROWS}, options=SweepOptions(progress=True))
    text = capsys.readouterr().err
    assert text.startswith("\rsweep: 0 of 100 runs, compiling")
    assert "sweep: 100 of 100 runs" in text
    assert text.endswith("\n")


def test_without_progress_nothing_is_written(capsys):
    sweep(_ramp, jnp.ones(1), {"[0]": _ROWS})
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(
    "optimization_level=0" in os.environ["XLA_FLAGS"],
    reason="unoptimized, tiles take 0.84 of the time, and optimized less than half",
)
def test_batch_last_tiles_are_faster_than_one_vmap():
    """Five bodies: 0.046 against 0.29 µs per step and run; a factor 2 leaves room."""

    def bodies(x):
        masses = jnp.asarray([1.0, 1e-3, 3e-4, 4e-5, 5e-5]) * x
        distance = jnp.asarray([0.0, 5.2, 9.5, 19.2, 30.0])
        start = jnp.zeros((3, 5)).at[0].set(distance)
        speed = jnp.zeros((3, 5)).at[1, 1:].set(distance[1:] ** -0.5)

        def step(carry, _):
            x, v = carry
            d = x[:, None, :] - x[:, :, None]
            r2 = jnp.sum(d * d, 0) + jnp.eye(5)
            v = v + 0.5 * jnp.sum(masses * d / (r2 * jnp.sqrt(r2)), -1)
            return (x + 0.5 * v, v), None

        return jax.lax.scan(step, (start, speed), None, length=4000)[0]

    rows = {"[0]": np.linspace(0.8, 1.2, 64)}
    alone = jax.jit(jax.vmap(bodies))
    inputs = jnp.asarray(rows["[0]"])[:, None]
    fastest, slowest = np.inf, np.inf
    for _ in range(4):
        fastest = min(fastest, sweep(bodies, jnp.ones(1), rows).stats["run_seconds"])
        start = time.perf_counter()
        jax.block_until_ready(alone(inputs))
        slowest = min(slowest, time.perf_counter() - start)
    assert fastest < 0.5 * slowest
