"""A sweep goes on where its store is, and mends what is damaged."""

import os
import runpy
import shutil
import subprocess
import sys
import textwrap
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain
from stored_springs import (
    CHUNKS,
    RATES,
    chunk_file,
    content,
    entry,
    flip,
    run,
    spring,
    truncate,
)

from diffsim._results import RESULTS


zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")


@pytest.fixture
def store(tmp_path):
    """One that is complete, of `run(path)`."""
    run(tmp_path / "runs.zarr")
    return tmp_path / "runs.zarr"


def test_same_sweep_again_computes_one_run_to_compare(store, compilations):
    before, compiled = content(store), compilations()
    again = run(store)
    assert again.stats["computed"] == 0 and len(again) == 11
    np.testing.assert_array_equal(again.outputs[0], run(store).outputs[0])
    assert compilations() <= compiled + 1
    assert content(store) == before


def test_chunks_without_an_entry_are_computed_and_no_others(store):
    before = content(store)
    entry(store, 1).unlink()
    entry(store, 3).unlink()
    again = run(store)
    assert again.stats["computed"] == 3 + 2
    assert content(store) == before


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


@pytest.mark.parametrize("itself", first_plain([True, False]))
def test_other_processes_go_on_with_the_same_store(
    itself, tmp_path, monkeypatch, capsys
):
    """Whatever the order of sets is there, and the addresses of functions.

    Those are others, too, where a process reads the script once more itself.
    """
    script, path = tmp_path / "script.py", tmp_path / "runs.zarr"
    script.write_text(textwrap.dedent(SCRIPT))
    monkeypatch.setattr(sys, "argv", [str(script), str(path), "1"])
    runpy.run_path(str(script))
    assert capsys.readouterr().out == "6\n"
    entry(path, 1).unlink()
    if itself:
        monkeypatch.setattr(sys, "argv", [str(script), str(path), "2"])
        runpy.run_path(str(script))
        assert capsys.readouterr().out == "2\n"
        return
    command = [sys.executable, "-W", "error", str(script), str(path), "2"]
    environment = os.environ | {"PYTHONHASHSEED": "3", "DIFFSIM_UNCHECKED": "1"}
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "2\n"


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


def test_progress_counts_failures_of_earlier_calls(tmp_path):
    def predict(model):
        return jnp.where(model["rate"] < 0.75, jnp.nan, model["rate"])

    seen = []
    run(tmp_path / "runs.zarr", predict, part=(0, 2))
    run(tmp_path / "runs.zarr", predict, progress=seen.append)
    assert (seen[-1]["done"], seen[-1]["failed"]) == (11, 3)


def test_damaged_values_of_the_runs_are_written_again(store):
    before, file = content(store), store / "rate" / "c" / "0"
    values = file.read_bytes()
    file.write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="rate/c/0: what the runs are over, or"):
        assert run(store).stats["computed"] == 0
    assert file.read_bytes() == values
    assert content(store) == before


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


def files_of(store):
    return sorted(x for x in store.rglob("*") if x.is_file() and x.suffix != ".lock")


def change_byte(path, place, by):
    content = bytearray(path.read_bytes())
    place = place % len(content)
    content[place] = (content[place] + by) % 256
    path.write_bytes(content)


def outcome_of_damage(store, expected):
    """What the same sweep says; its numbers are right where it gives any."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            outputs = jax.tree.leaves(run(store).outputs)
        except ValueError as error:
            return "refused" if "name another store" in str(error) else str(error)
    for name, x in variables_of(store).items():
        np.testing.assert_array_equal(x, expected[name], err_msg=name)
    np.testing.assert_array_equal(outputs[0], expected["output[0]"])
    return "mended" if told else "unseen"


def variables_of(store):
    with xarray.open_zarr(store) as dataset:
        return {name: np.asarray(x) for name, x in dataset.variables.items()}


def test_one_damaged_byte_in_any_file_is_mended_or_refused(store, tmp_path):
    expected, copy = variables_of(store), tmp_path / "copy.zarr"
    for i, file in enumerate(files_of(store)):
        shutil.copytree(store, copy)
        change_byte(copy / file.relative_to(store), 37 * i, 1 + i % 255)
        assert outcome_of_damage(copy, expected) in ("mended", "refused")
        shutil.rmtree(copy)


@pytest.mark.slow
def test_a_thousand_damaged_bytes_are_mended_or_refused(store, tmp_path):
    expected, copy = variables_of(store), tmp_path / "copy.zarr"
    random, files, seen = np.random.default_rng(0), files_of(store), set()
    for _ in range(1000):
        shutil.copytree(store, copy)
        file = copy / files[random.integers(len(files))].relative_to(store)
        change_byte(file, random.integers(2**31), random.integers(1, 256))
        seen.add(outcome_of_damage(copy, expected))
        shutil.rmtree(copy)
    assert seen == {"mended", "refused"}


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def dangling(path):
    path.unlink()
    path.symlink_to("nowhere")


def folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("kind", [pipe, dangling, folder])
@pytest.mark.parametrize("of", [lambda s: chunk_file(s, 1), lambda s: s / "rate/c/0"])
def test_what_is_no_file_is_replaced(store, kind, of):
    before = content(store)
    kind(of(store))
    with pytest.warns(UserWarning, match="damaged"):
        run(store)
    assert content(store) == before


@pytest.mark.parametrize("name", ["entry", "manifest/sweep.json"])
def test_pipe_in_the_manifest_is_a_sentence(store, name):
    pipe(entry(store, 1) if name == "entry" else store / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, OSError), match=r"runs\.zarr"):
            run(store)


@pytest.mark.parametrize("of", ["entry", "description"])
def test_other_numbers_in_the_manifest_are_mended_or_refused(store, of):
    """What is still JSON, and says something else."""
    path = entry(store, 1) if of == "entry" else store / "manifest" / "sweep.json"
    before, text = content(store), path.read_text()
    old, new = ('"failed": 0', '"failed": 2') if of == "entry" else ("11", "10")
    assert old in text
    path.write_text(text.replace(old, new))
    if of == "entry":
        with pytest.warns(UserWarning, match="its entry in the manifest"):
            assert run(store).successful.all()
        assert content(store) == before
    else:
        with pytest.raises(ValueError, match="damaged manifest"):
            run(store)


NAMES = "a#3", "a?b", "a\tb", "a\nb", "a b", "a%20b", "ä", "a:b", "a&b", "a*b", "[a]"
NAMES += "{a}", "a'b", 'a"b', "a\\b", "~a", "-a", "a;b", "$a", "a|b", "file:a"


@pytest.mark.parametrize("name", NAMES)
def test_store_is_written_where_its_path_says(tmp_path, name):
    parent = tmp_path / name
    parent.mkdir()
    run(parent / f"{name}.zarr")
    assert [x.name for x in tmp_path.iterdir()] == [name]
    assert [x.name for x in parent.iterdir()] == [f"{name}.zarr"]
    assert run(parent / f"{name}.zarr").stats["computed"] == 0


def test_longer_table_extends_a_store(tmp_path):
    path = tmp_path / "runs.zarr"
    run(path, over={"rate": RATES[:4]})
    assert run(path).stats["computed"] == len(RATES) - 3  # a chunk of three is whole
    run(tmp_path / "at_once.zarr")
    at_once = variables_of(tmp_path / "at_once.zarr")
    for name, x in variables_of(path).items():
        np.testing.assert_allclose(x, at_once[name], rtol=1e-14, err_msg=name)


def test_store_of_a_callback_that_changed_is_refused_with_both_numbers(tmp_path):
    number = [1.0]

    def predict(model):
        shape = jax.ShapeDtypeStruct((), float)
        return model["rate"] * jax.pure_callback(lambda: np.asarray(number[0]), shape)

    run(tmp_path / "runs.zarr", predict)
    number[0] = 1.1
    with pytest.raises(ValueError, match=r"has \S+ in it, and \S+ here"):
        run(tmp_path / "runs.zarr", predict)
