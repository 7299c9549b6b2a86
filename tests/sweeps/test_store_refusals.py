"""What does not fit a store, or keeps it from being written, is said in a sentence."""

import contextlib
import dataclasses
import errno
import os
import subprocess
import sys
import textwrap

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from given_terms import Given, ode
from rows import first_plain
from stored_springs import RATES, content, entry, model, run, truncate

from diffsim.simulations import Method, StateAxes, simulate
from diffsim.sweeps import _open_store
from diffsim.sweeps._store_manifest import read_description, write_description


zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")


FIXED = Method(diffrax.Euler(), 0.1)


@pytest.fixture
def store(tmp_path):
    """One that is complete, of `run(path)`."""
    run(tmp_path / "runs.zarr")
    return tmp_path / "runs.zarr"


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
        ({}, {"over": {"rate": RATES[:10]}}, r"runs \(11 there, 10 here\), over"),
        ({}, {"derivative": "jacobian"}, r"predict, derivative \(None there"),
        (
            {},
            {"predict": scaled(2.0), "over": {"rate": RATES[:10]}},
            r"runs \(11 there, 10 here\), predict, over differ;",
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
    description = read_description(store)
    description["identity"]["versions"] = "diffsim 0.1.0, JAX 0.8.0"
    write_description(store, description)
    here = f"diffsim .*, JAX {jax.__version__}"
    with pytest.raises(ValueError, match=rf"its versions \(diffsim 0.1.*, {here} h"):
        run(store)


def test_store_of_another_precision_is_refused_with_both_named(store):
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match=r"its precision \(float6"),
    ):
        run(store, made=model(rate=jnp.array(1.0), start=jnp.ones(2)))


def named(path, *parameters, output="y"):
    """A store of parameters and an output of these names."""
    made, over = (dict.fromkeys(parameters, value) for value in (jnp.array(1.0), RATES))
    run(path, lambda m: {output: 2 * m[parameters[0]]}, made, over)


LONG = "at most 255 bytes, got '{}.*; give it a shorter name"


@pytest.mark.parametrize(
    ("parameters", "output", "words"),
    [
        (["a/b", "c"], "a_b", r"spaces and slashes are '_',.* several named \['a_b'\]"),
        (["a/b", "a b"], "y", r"several named \['a_b'\]"),
        (["a"], "a ", r"several named \['a'\]"),
        (["status"], "y", r"several named \['status'\].* none of which is run"),
        ([" status"], "y", r"several named \['status'\].* none of which is run"),
        (["successful"], "y", r"several named \['successful'\]"),
        (["run"], "y", r"several named \['run'\]"),
        ([" run"], "y", r"several named \['run'\]"),
        (["a"], "run", r"several named \['run'\]"),
        (["y"], "y", r"several named \['y'\]"),
        (["manifest"], "manifest_", r"several named \['manifest_'\]"),
        (["a" * 256], "y", LONG.format("aaa")),
        (["a"], "ü" * 128, LONG.format("üüü")),
    ],
)
def test_names_that_a_store_cannot_have_are_refused(
    tmp_path, parameters, output, words
):
    with pytest.raises(ValueError, match=words):
        named(tmp_path / "runs.zarr", *parameters, output=output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameter", "output", "stored"),
    first_plain(
        [
            ("manifest", "zarr.json", ["manifest_", "zarr.json_"]),
            ("zarr.json", "manifest", ["zarr.json_", "manifest_"]),
            (" ", "..", ["_", ".._"]),
            ("error_estimate", ".", ["error_estimate", "._"]),
            ("time", "times", ["time", "times"]),
            ("times", "time", ["times", "time"]),
            ("parameter", "c", ["parameter", "c"]),
            ("c", ".zattrs", ["c", ".zattrs"]),
            ("a/b c", "__y", ["a_b_c", "__y"]),
            ("a" * 255, "ü" * 127, ["a" * 255, "ü" * 127]),
        ],
        2,
    ),
)
def test_every_other_name_is_stored(tmp_path, parameter, output, stored):
    for _ in range(2):
        named(tmp_path / "runs.zarr", parameter, output=output)
    dataset = xarray.open_zarr(tmp_path / "runs.zarr")
    assert dataset[stored[0]].attrs["path"] == parameter
    for name, factor in zip(stored, (1, 2), strict=True):
        np.testing.assert_array_equal(dataset[name], factor * RATES)


@pytest.mark.parametrize("axis", ["a/b", "manifest", "zarr.json", "."])
def test_axes_of_every_name_are_stored(tmp_path, axis):
    axes = StateAxes("y", axes={"y": axis}, entries={axis: ["u", "v"]})
    trajectory = simulate(Given(jnp.ones(2), ode(lambda y: -y)), 0.1, FIXED)
    predict = lambda m: dataclasses.replace(trajectory, axes=axes)  # noqa: E731
    run(tmp_path / "runs.zarr", predict)
    dataset = xarray.open_zarr(tmp_path / "runs.zarr")
    (name,) = dataset.y.dims[1:]
    assert dataset[name].values.tolist() == ["u", "v"]


def test_complete_store_that_cannot_be_written_is_read(store, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(_open_store, "claimed", None)  # would write its lock
    assert run(store).stats["computed"] == 0


def test_base_value_of_what_is_swept_does_not_matter(store):
    assert run(store, made=model(rate=jnp.array(7.0))).stats["computed"] == 0


def test_addresses_of_functions_do_not_matter(tmp_path):
    def made():
        def double(x):
            return 2 * x

        def predict(model):
            rate = model["rate"]
            return jax.pure_callback(double, rate, rate, vmap_method="expand_dims")

        return predict

    one, other = made(), made()
    assert "0x" in str(jax.make_jaxpr(one)(model()))
    run(tmp_path / "runs.zarr", predict=one)
    assert run(tmp_path / "runs.zarr", predict=other).stats["computed"] == 0


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


def test_damaged_description_is_named_and_arrays_stay(store):
    truncate(store / "manifest" / "sweep.json")
    before = content(store)
    with pytest.raises(ValueError, match=r"sweep\.json.* name another store"):
        run(store)
    assert content(store) == before


def test_description_without_a_part_of_it_is_damaged(store):
    (store / "manifest" / "sweep.json").write_text('{"identity": {}}')
    with pytest.raises(ValueError, match="has a damaged manifest"):
        run(store)


HOLD = """
    import fcntl, sys, time
    with open(sys.argv[1], "a+") as file:
        fcntl.flock(file, getattr(fcntl, sys.argv[2]))
        file.truncate(0)
        file.write(sys.argv[3])
        file.flush()
        print("held", flush=True)
        time.sleep(60)
"""


@contextlib.contextmanager
def held_by_another_process(lock, how, text):
    pytest.importorskip("fcntl")
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(lock), how, text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        yield
        holder.kill()


def test_part_that_another_process_has_is_refused(store):
    before, lock = content(store), store / "manifest" / "part 0 of 2.lock"
    with held_by_another_process(lock, "LOCK_EX", "process 7 on node12"):
        named = "part 0 of 2 of this sweep is being run by process 7 on node12; give"
        with pytest.raises(ValueError, match=named):
            run(store, part=(0, 2))
        assert run(store, part=(1, 2)).stats["computed"] == 0
    assert content(store) == before
    assert run(store, part=(0, 2)).stats["computed"] == 0


@pytest.mark.parametrize(
    ("there", "mine", "named"),
    [
        ("2", None, "run in 2 parts, by process 7 on node12 among others, and the who"),
        ("2", (0, 3), "in 2 parts, .*, and one of 3 parts has runs of theirs; divide"),
        ("1", (0, 2), "as a whole, by process 7 on node12 .* wait until they have end"),
    ],
)
def test_other_divisions_at_the_same_time_are_refused(store, there, mine, named):
    before, lock = content(store), store / "manifest" / "division.lock"
    with held_by_another_process(lock, "LOCK_SH", f"{there} process 7 on node12"):
        with pytest.raises(ValueError, match=named):
            run(store, part=mine)
        same = None if there == "1" else (0, int(there))
        assert run(store, part=same).stats["computed"] == 0
    assert content(store) == before
    assert run(store, part=mine).stats["computed"] == 0
