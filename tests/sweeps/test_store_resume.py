"""A sweep goes on where its store is; it refuses, or mends, what does not fit."""

import contextlib
import errno
import json
import os
import runpy
import subprocess
import sys
import textwrap
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._results import RESULTS
from diffsim.sweeps import SweepOptions, sweep


zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")

RATES = np.linspace(0.5, 1.5, 11)
OVER = {"rate": RATES}
#: Of three runs each: chunks 0 to 3, the last of two.
CHUNKS = 4


def model(**others):
    return {"rate": jnp.array(1.0), "start": jnp.array([1.0, -0.5]), **others}


def spring(model):
    def step(carry, _):
        x, v = carry
        v = v - 0.1 * model["rate"] * x
        return (x + 0.1 * v, v), None

    return jax.lax.scan(step, (model["start"], jnp.zeros(2)), None, length=20)[0]


def run(path, predict=spring, made=None, over=OVER, *, derivative=None, **options):
    made = model() if made is None else made
    options = SweepOptions(**{"chunk": 3, **options})
    return sweep(
        predict, made, over, batch=2, store=path, derivative=derivative, options=options
    )


@pytest.fixture
def store(tmp_path):
    """One that is complete, of `run(path)`."""
    run(tmp_path / "runs.zarr")
    return tmp_path / "runs.zarr"


def _content(file):
    """Bytes; of descriptions what they say, whose order older releases of Zarr vary."""
    if file.suffix == ".json":
        with contextlib.suppress(ValueError):  # one that is damaged
            return json.loads(file.read_bytes())
    return file.read_bytes()


def content(path):
    """What each chunk comes to: files of arrays, and entries."""
    return {
        str(file.relative_to(path)): _content(file)
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.suffix != ".lock"
    }


def entry(path, chunk):
    return path / "manifest" / f"{chunk:08d}.json"


def chunk_file(path, chunk):
    """Of the first output, whose name is given by its place in the tuple."""
    (name,) = [
        x for x in json.loads(entry(path, chunk).read_text())["files"] if "[0]" in x
    ]
    return path / name


def test_same_sweep_again_computes_and_compiles_nothing(store, compilations):
    before, compiled = content(store), compilations()
    again = run(store)
    assert again.stats["computed"] == 0 and len(again) == 11
    assert compilations() == compiled
    assert content(store) == before
    np.testing.assert_array_equal(again.outputs[0], run(store).outputs[0])


def test_chunks_without_an_entry_are_computed_and_no_others(store):
    before = content(store)
    entry(store, 1).unlink()
    entry(store, 3).unlink()
    again = run(store)
    assert again.stats["computed"] == 3 + 2
    assert content(store) == before


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda path: flip(chunk_file(path, 1)), "another checksum"),
        (lambda path: truncate(chunk_file(path, 1)), "bytes for"),
        (lambda path: chunk_file(path, 1).unlink(), "cannot be read"),
        (lambda path: truncate(entry(path, 1)), "its entry in the manifest"),
        (lambda path: entry(path, 1).write_bytes(b""), "its entry in the manifest"),
    ],
    ids=["flipped bit", "truncated", "missing", "truncated entry", "empty entry"],
)
def test_damaged_chunk_is_named_and_computed_again(store, damage, named):
    before = content(store)
    damage(store)
    with pytest.warns(UserWarning, match=f"chunk 1 is damaged.*{named}") as told:
        again = run(store)
    assert len(told) == 1
    assert again.stats["computed"] == 3
    assert content(store) == before


def test_chunk_damaged_after_the_sweep_is_named_when_it_is_read(store):
    found = run(store)
    flip(chunk_file(store, 2))
    with pytest.raises(ValueError, match=r"is damaged .* called again, repeats"):
        _ = found.outputs


SCRIPT = """
    import functools, sys, jax, jax.numpy as jnp, numpy as np
    jax.config.update("jax_enable_x64", True)
    from diffsim.sweeps import SweepOptions, sweep

    weights, far = np.arange(2.0), np.zeros(5000)
    far[2500] = 3.0

    @jax.custom_jvp
    def twice(x):
        return 2 * x

    twice.defjvp(lambda x, dx: (2 * x[0], 2 * dx[0]))

    def note(x):
        return x

    def predict(model):
        x = twice(model["rate"]) * weights + jnp.asarray(far)[2500]
        x = jax.lax.cond(x[0] > 1, lambda x: x * weights, lambda x: x, x)
        shape = jax.ShapeDtypeStruct((2,), float)
        x = jax.pure_callback(note, shape, x, vmap_method="expand_dims")
        return {name: x for name in {"some", "names", "of", "a", "set"}}

    model = {"rate": jnp.array(float(sys.argv[2])), "other": jnp.ones(2)}
    found = sweep(
        predict,
        model,
        {"rate": np.linspace(0.5, 1.5, 6)},
        batch=2,
        store=sys.argv[1],
        options=SweepOptions(chunk=2),
    )
    print(found.stats["computed"])
"""


def test_other_processes_go_on_with_the_same_store(tmp_path, monkeypatch, capsys):
    """Whatever the order of sets is there, and the addresses of functions."""
    script, path = tmp_path / "script.py", tmp_path / "runs.zarr"
    script.write_text(textwrap.dedent(SCRIPT))
    monkeypatch.setattr(sys, "argv", [str(script), str(path), "1"])
    runpy.run_path(str(script))
    assert capsys.readouterr().out == "6\n"
    entry(path, 1).unlink()
    command = [sys.executable, "-W", "error", str(script), str(path), "2"]
    environment = os.environ | {"PYTHONHASHSEED": "3", "DIFFSIM_UNCHECKED": "1"}
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "2\n"


class Weighted(eqx.Module):
    """A prediction with numbers of its own."""

    weights: jax.Array

    def __call__(self, model):
        return model["rate"] * self.weights


def scaled(constant):
    return lambda model: model["rate"] * constant


def branches(constant):
    at_most = jnp.full(2, constant)

    def predict(model):
        above = model["rate"] > 1
        return jax.lax.cond(above, lambda x: x * at_most, lambda x: x + at_most, 1.0)

    return predict


def without_description(store):
    (store / "manifest" / "sweep.json").unlink()


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ({}, {"predict": scaled(2.0)}, "predict differs"),
        ({"predict": scaled(2.0)}, {"predict": scaled(2 + 1e-15)}, "predict differs"),
        ({"predict": branches(2.0)}, {"predict": branches(3.0)}, "predict differs"),
        (
            {"predict": Weighted(jnp.ones(2))},
            {"predict": Weighted(jnp.arange(2.0))},
            "predict differs",
        ),
        ({}, {"made": model(start=jnp.array([1.0, 0.5]))}, "model differs"),
        ({}, {"over": {"rate": RATES + 1e-15}}, "over differs"),
        ({}, {"over": {"rate": RATES[:10]}}, "over differs"),
        ({}, {"derivative": "jacobian"}, "predict, derivative differ"),
        (
            {},
            {"predict": scaled(2.0), "over": {"rate": RATES[:10]}},
            "predict, over differ;",
        ),
    ],
    ids=[
        "another predict",
        "another constant",
        "another constant in a branch",
        "another array in a field",
        "another number that is not swept",
        "other values",
        "fewer values",
        "a derivative",
        "two of these",
    ],
)
def test_store_of_another_sweep_is_refused_and_stays(tmp_path, one, other, named):
    run(tmp_path / "runs.zarr", **one)
    before = content(tmp_path / "runs.zarr")
    with pytest.raises(ValueError, match=f"is of another sweep: its {named}"):
        run(tmp_path / "runs.zarr", **other)
    assert content(tmp_path / "runs.zarr") == before


def test_store_of_other_versions_is_refused_with_both_named(store):
    file = store / "manifest" / "sweep.json"
    description = json.loads(file.read_text())
    description["identity"]["versions"] = "diffsim 0.1.0, JAX 0.8.0"
    file.write_text(json.dumps(description))
    here = f"diffsim .*, JAX {jax.__version__}"
    with pytest.raises(
        ValueError, match=rf"versions differs \(diffsim 0.1.*, {here} h"
    ):
        run(store)


def test_base_value_of_what_is_swept_does_not_matter(store):
    assert run(store, made=model(rate=jnp.array(7.0))).stats["computed"] == 0


def predict_of_file(path):
    """Runs that fail as long as the file says from which rate on."""

    def read(rate):
        return np.where(rate > float(path.read_text()), np.nan, rate)

    def predict(model):
        x, v = spring(model)
        rate, shape = model["rate"], jax.ShapeDtypeStruct((), float)
        found = jax.pure_callback(read, shape, rate, vmap_method="expand_dims")
        return x, v, found, rate**2

    return predict


def test_failed_runs_are_repeated_alone(tmp_path):
    """Six of eleven fail at first, two of them in a chunk beside one that does not."""
    limit, path = tmp_path / "limit", tmp_path / "runs.zarr"
    predict = predict_of_file(limit)
    limit.write_text("0.95")
    first = run(path, predict)
    assert [failure.run for failure in first.failures] == list(range(5, 11))
    status = xarray.open_zarr(path).status.values
    failed = np.asarray(first.status != RESULTS.successful)
    np.testing.assert_array_equal(status != 0, failed)
    earlier = [np.array(x) for x in first.outputs]
    assert run(path, predict).stats["computed"] == 0
    limit.write_text("1.35")
    second = run(path, predict, retry="failed")
    assert second.stats["computed"] == 6
    assert [failure.run for failure in second.failures] == [9, 10]
    for x, y in zip(earlier, second.outputs, strict=True):
        assert x[~failed].tobytes() == y[~failed].tobytes()
    np.testing.assert_array_equal(second.outputs[2][:9], RATES[:9])
    limit.write_text("9")
    assert run(path, predict, retry="failed").stats["computed"] == 2
    assert run(path, predict, retry="failed").stats["computed"] == 0
    assert run(tmp_path / "new", predict).failures == ()
    assert content(path) == content(tmp_path / "new")


def test_whole_chunks_are_stored_when_progress_interrupts(tmp_path):
    path = tmp_path / "runs.zarr"

    def interrupt(state):
        if state["done"] >= 6:
            raise KeyboardInterrupt

    # of two runs each
    small = {"memory": 1, "progress": interrupt}
    with pytest.raises(KeyboardInterrupt):
        run(path, **small)
    there = sorted(x.name for x in (path / "manifest").glob("0*"))
    assert there == ["00000000.json", "00000001.json"]
    before = content(path)
    with pytest.raises(KeyboardInterrupt):
        run(path, **small)
    assert {name: content(path)[name] for name in before} == before
    assert run(path).stats["computed"] == 5
    run(tmp_path / "new")
    assert content(path) == content(tmp_path / "new")


def test_os_errors_of_others_are_not_taken_for_the_disk_of_the_store(tmp_path):
    def progress(state):
        raise ConnectionResetError(errno.ECONNRESET, "the terminal is gone")

    with pytest.raises(ConnectionResetError, match="the terminal is gone"):
        run(tmp_path / "runs.zarr", progress=progress)


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("what", ["fsync", "chunk"])
def test_full_disk_is_explained_and_what_is_there_stays(store, monkeypatch, what):
    whole = content(store)
    for chunk in (1, 2):
        entry(store, chunk).unlink()
    before = content(store)
    with monkeypatch.context() as patch:
        if what == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr("zarr.storage._local._atomic_write", full)
        with pytest.raises(
            OSError, match=r"\(No space left.*; 2 chunks are in it"
        ) as e:
            run(store)
    assert e.value.errno == errno.ENOSPC
    assert content(store) == before
    assert run(store).stats["computed"] == 6
    assert content(store) == whole


def test_full_disk_leaves_no_store_that_is_not_whole(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"0 chunks are in it and stay. Make room"):
            run(tmp_path / "runs.zarr")
    assert list(tmp_path.iterdir()) == []


def test_store_that_may_not_be_written_is_explained(store, monkeypatch):
    """For root no permission binds, so opening its lock is refused here."""
    before = content(store)
    entered = type(store).open

    def refused(self, mode="r", *args, **kwargs):
        if "r" not in mode:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return entered(self, mode, *args, **kwargs)

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(OSError, match=r"cannot be written \(Permission denied\); 4 ch"):
        run(store)
    assert content(store) == before


def test_folder_that_is_no_store_and_files_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ValueError, match="is a folder that no sweep has made"):
        run(tmp_path / "folder")
    with pytest.raises(ValueError, match="is a file; a store is a folder"):
        run(tmp_path / "file")
    with pytest.raises(ValueError, match=r"folder '.*missing' does not exist; make it"):
        run(tmp_path / "missing" / "runs.zarr")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("name", ["manifest/sweep.json", "zarr.json"])
def test_damaged_descriptions_are_named_and_arrays_stay(store, name):
    truncate(store / name)
    before = content(store)
    with pytest.raises(ValueError, match=f"{name.split('/')[-1]}.* name another store"):
        run(store)
    assert content(store) == before


def test_description_without_a_part_of_it_is_damaged(store):
    (store / "manifest" / "sweep.json").write_text('{"identity": {}}')
    with pytest.raises(ValueError, match="has a damaged manifest"):
        run(store)


HOLD = """
    import fcntl, sys, time
    with open(sys.argv[1], "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("process 7 on node12")
        file.flush()
        print("held", flush=True)
        time.sleep(60)
"""


def test_part_that_another_process_has_is_refused(store):
    pytest.importorskip("fcntl")
    before = content(store)
    lock = store / "manifest" / "part 0 of 2.lock"
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        named = "part 0 of 2 of this sweep is being run by process 7 on node12; give"
        with pytest.raises(ValueError, match=named):
            run(store, part=(0, 2))
        assert run(store, part=(1, 2)).stats["computed"] == 0
        holder.kill()
    assert content(store) == before
    assert run(store, part=(0, 2)).stats["computed"] == 0


def test_what_killed_processes_left_is_deleted_of_own_chunks_alone(store):
    arrays = chunk_file(store, 1).parents[2]
    left = {
        chunk: [
            arrays / "c" / str(chunk) / f"0.{'ab' * 16}.partial",
            store / "status" / "c" / f"{chunk}.{'ab' * 16}.partial",
            store / "manifest" / f"{chunk:08d}.json.abcdef01.part",
        ]
        for chunk in range(CHUNKS)
    }
    all_ = [file for files in left.values() for file in files]
    for file in all_:
        file.write_bytes(b"part")
    run(store, part=(1, 2))
    for chunk, files in left.items():
        assert [file.exists() for file in files] == [chunk % 2 == 0] * 3
    begun = store.with_name("runs.zarr.0123abcd.partial")
    begun.mkdir()
    others = store.with_name("runs.zarr.copy.partial")
    others.mkdir()
    run(store)
    assert not any(file.exists() for file in all_)
    assert not begun.exists() and others.exists()


def test_complete_store_gives_no_warning(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(store)
        xarray.open_zarr(store)
