"""`diffsim sweep`: a file describes runs, a store keeps them, a signal ends them."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from diffsim import sweeps
from diffsim.cli import main
from diffsim.cli._sweep_command import named_object, read_sweep_file


pytest.importorskip("zarr")

_MODEL = """
import os
import time
from shutil import rmtree

import equinox as eqx
import jax
import jax.numpy as jnp

pendulum = {"length": jnp.array(1.0), "g": jnp.array(9.81)}


def make():
    return pendulum


def make_of_length(length):
    return pendulum


def make_forever():
    return make_forever()


def make_too_much():
    raise MemoryError


def make_of_text():
    return 1 + "a"


class Pendulum(eqx.Module):
    length: float = 1.0
    g: float = 9.81


def period(model):
    return 2 * jnp.pi * jnp.sqrt(model["length"] / model["g"])


def period_of_module(model):
    return period(vars(model))


def period_of_text(model):
    return period(model) + "a"


def slow(model):
    def wait(x):
        time.sleep(0.2)
        return x

    found = period(model)
    shape = jax.ShapeDtypeStruct((), found.dtype)
    return jax.pure_callback(wait, shape, found, vmap_method="sequential")
"""
_FILE = """
model = "swept_pendulum:make"

[grid]
length = {start = 0.1, stop = 2.0, number = 20, spacing = "log"}
g = [1.62, 3.71, 9.81]

[settings]
chunk = 4
batch = 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "swept_pendulum.py").write_text(_MODEL)
    (tmp_path / "sweep.toml").write_text(_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "swept_pendulum", raising=False)
    return tmp_path


def _run(*words):
    return main(["sweep", *words])


def test_model_is_a_class_that_is_called(folder, capsys):
    text = _FILE.replace(":make", ":Pendulum")
    (folder / "sweep.toml").write_text(text)
    arguments = (
        "swept_pendulum:period_of_module",
        "sweep.toml",
        "--store",
        "runs.zarr",
    )
    assert _run(*arguments) == 0
    assert "60 successful, 0 failed" in capsys.readouterr().out


def test_file_describes_the_sweep_that_is_stored(folder, capsys):
    xarray = pytest.importorskip("xarray")
    target = "swept_pendulum:period"
    assert _run(target, "sweep.toml", "--store", "runs.zarr", "--part", "0/2") == 0
    assert sweeps.store_status("runs.zarr").done == 32
    assert _run("--status", "runs.zarr") == 0
    assert "32 done, 0 of them failed, 28 left" in capsys.readouterr().out
    assert _run(target, "sweep.toml", "--store", "runs.zarr") == 0
    assert "60 successful, 0 failed" in capsys.readouterr().out
    runs = xarray.open_zarr("runs.zarr", chunks=None)
    expected = 2 * np.pi * np.sqrt(runs["length"] / runs["g"])
    np.testing.assert_allclose(runs.output, expected, rtol=1e-14)
    assert np.unique(runs.g).tolist() == [1.62, 3.71, 9.81]


def test_exit_code_says_whether_runs_failed(folder, capsys):
    text = 'model = "swept_pendulum:pendulum"\n[over]\nlength = [1.0, -1.0]\n'
    (folder / "bad.toml").write_text(text)
    assert _run("swept_pendulum:period", "bad.toml", "--store", "bad.zarr") == 3
    shown = capsys.readouterr()
    assert "1 successful, 1 failed" in shown.out
    assert "sweep: 2 of 2 runs, 1 failed" in shown.err


@pytest.mark.slow
def test_interrupt_finishes_the_chunk_and_says_how_to_go_on(folder):
    command = [sys.executable, "-m", "diffsim", "sweep", "swept_pendulum:slow"]
    command += ["sweep.toml", "--store", "runs.zarr", "--cpu-devices", "1"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    running = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(
        folder.glob("runs.zarr/manifest/0*")
    ):
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "finishing the chunk" in said
    assert "The same command goes on from there" in said
    done = sweeps.store_status("runs.zarr").done
    assert 0 < done < 60
    assert f"{done} done" in said


def _block(page, kind, mark):
    """A block of code of a page, by its language and a word in it."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)
    (found,) = [block for block in blocks if mark in block]
    return found


@pytest.mark.slow
def test_job_array_of_the_documentation_fills_one_store(tmp_path):
    """The script, the file and the module of the page, as two jobs at a time."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
    (tmp_path / "pendulum.py").write_text(_block(page, "python", "# pendulum.py"))
    (tmp_path / "sweep.toml").write_text(_block(page, "toml", "[sobol]"))
    script = _block(page, "sh", "SBATCH").replace("parts=16", "parts=2")
    (tmp_path / "job.sh").write_text(script)
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    jobs = [
        subprocess.Popen(
            ["bash", "job.sh"],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "SLURM_ARRAY_TASK_ID": i},
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in "01"
    ]
    for job in jobs:
        _, said = job.communicate(timeout=120)
        assert job.returncode == 0, said
    status = sweeps.store_status(tmp_path / "runs.zarr")
    assert (status.runs, status.done, status.failed) == (4096, 4096, 0)


_WRONG = [
    ("[over]\nlength = [1.0]", 'must say model = "module:name"'),
    ('model = "a:b"', "must have one of the tables"),
    ('model = "a:b"\n[over]\nx = [1]\n[grid]\nx = [1]', "it has .'over', 'grid'."),
    ('model = "a:b"\n[grid]\nx = {start = 1, stop = 2}', "'number' is missing"),
    ('model = "a:b"\n[grid]\nx = {begin = 1}', "grid.x.begin means nothing"),
    ('model = "a:b"\n[sobol]\nruns = 4', "must have runs, seed and free"),
    ('model = "a:b"\n[over]\nx = [1]\n[settings]\nbatches = 3', "near are 'batch'"),
    ('model = "a:b"\n[over]\nx = [1]\n[settings]\nbatch = "3"', "must be int"),
    ("model = ", "is no TOML"),
    ('model = "a:b"\nover = 3', "over must be a table, got 3"),
    ('model = "a:b"\nover = 2020-01-01', "over must be a table, got datetime"),
    ('model = "a:b"\ngrid = true', "grid must be a table, got True"),
    ("x = " + 3000 * "[" + 3000 * "]", "nests lists or tables too deeply"),
    ("x = " + 3000 * "{a = ", "nests lists or tables too deeply"),
    ("x = [1" + 5000 * "0" + "]", "sweep.toml: .*4300 digits"),
    *(
        (f'model = "a:b"\n[grid]\nx = {values}', message)
        for values, message in (
            ("[1.0, true]", "grid.x must be numbers .* got .1.0, True."),
            ("[nan]", "grid.x must be numbers .* got .nan."),
            ('["a"]', "grid.x must be numbers .* got .'a'."),
            ("[2020-01-01]", "grid.x must be numbers .* got .datetime"),
            ("[{a = 1}]", "grid.x must be numbers .* got .{'a': 1}"),
            ("[[1.0], [1.0, 2.0]]", "grid.x must be numbers .* one length"),
            ("[]", "sweep.toml: grid axis 'x' must have shape"),
        )
    ),
    *(
        (f'model = "a:b"\n[grid]\nx = {{start = 1, stop = 2, number = {x}}}', message)
        for x, message in (
            ("3.5", "grid.x.number must be a whole number from 1, got 3.5"),
            ("0", "grid.x.number must be a whole number from 1, got 0"),
            ("-1", "grid.x.number must be a whole number from 1, got -1"),
            ("nan", "grid.x.number must be a whole number from 1, got nan"),
            ("true", "grid.x.number must be a whole number from 1, got True"),
            ('"3"', "grid.x.number must be a whole number from 1, got '3'"),
            ("[3]", "grid.x.number must be a whole number from 1, got .3."),
            ("1000000000000000", "grid.x makes no values: Unable to allocate"),
            ("1" + 400 * "0", "grid.x makes no values: Maximum allowed size"),
            ("3, spacing = []", "grid.x.spacing must be one of 'linear', 'log'"),
        )
    ),
    *(
        (f'model = "a:b"\n[over]\nx = {{start = {x}, stop = 2, number = 3}}', message)
        for x, message in (
            ("nan", "over.x.start must be numbers .* got nan"),
            ("-inf", "over.x.start must be numbers .* got -inf"),
            ("1e400", "over.x.start must be numbers .* got inf"),
            ("1" + 400 * "0", "over.x.start must be numbers .* got 1000"),
            ("true", "over.x.start must be numbers .* got True"),
            ('"a"', "over.x.start must be numbers .* got 'a'"),
            ("2020-01-01", "over.x.start must be numbers .* got datetime"),
            ("{a = 1}", "over.x.start must be numbers .* got {'a': 1}"),
            ("[[1], [1, 2]]", "over.x.start must be numbers .* one length"),
        )
    ),
    (
        'model = "a:b"\n[over.x]\nstart = -1\nstop = 2\nnumber = 3\nspacing = "log"',
        "over.x, from start to stop, must be finite, got nan",
    ),
    (
        'model = "a:b"\n[over.x]\nstart = 0\nstop = 2\nnumber = 3\nspacing = "log"',
        "over.x makes no values: Geometric sequence",
    ),
    (
        'model = "a:b"\n[grid]\n'
        + "\n".join(f"{x} = {{start = 1, stop = 2, number = 100000}}" for x in "xyz"),
        "sweep.toml: Unable to allocate",
    ),
    *(
        (f'model = "a:b"\n[from_prior]\nruns = 4\nseed = 1\nfree = {free}', message)
        for free, message in (
            ("3", "from_prior.free must be a table, got 3"),
            ("[1]", "from_prior.free must be a table, got .1."),
            ("{x = {bounds = 3}}", "free.x: bounds must be a pair .* got 3"),
            ('{x = {bounds = "ab"}}', "free.x: bounds must be a pair .* got 'ab'"),
            ("{x = {bounds = true}}", "free.x: bounds must be a pair .* got True"),
            ("{x = {prior = 3}}", "free.x: prior must be .* got 3"),
            ("{x = {prior = 2020-01-01}}", "free.x: prior must be .* got datetime"),
            ("{x = {prior = [nan, 1.0]}}", "prior must be finite, got nan"),
            ("{x = {prior = [1.0, 1e400]}}", "prior must be finite, got inf"),
            (f"{{x = [1.0, 1{400 * '0'}]}}", "upper must be numbers up to 1.797"),
        )
    ),
    (
        'model = "a:b"\n[from_prior]\nruns = 1000000000000000\nseed = 1\n'
        "free = {x = [0.0, 1.0]}",
        "sweep.toml: Unable to allocate",
    ),
]


@pytest.mark.parametrize(
    ("text", "message"), _WRONG, ids=[f"{i}" for i in range(len(_WRONG))]
)
def test_file_that_cannot_be_meant_raises_value_error(tmp_path, text, message):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_sweep_file(path)


def test_files_draw_samples_as_functions_do(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'model = "a:b"\n[sobol]\nruns = 8\nseed = 3\n[sobol.free]\nx = [1.0, 2.0]\n'
        'y = {bounds = [0.1, 10.0], transform = "log"}\nz = {prior = [0.0, 1.0]}\n'
    )
    from diffsim import Free

    free = {
        "x": (1.0, 2.0),
        "y": Free(bounds=(0.1, 10.0), transform="log"),
        "z": Free(prior=(0.0, 1.0)),
    }
    found = read_sweep_file(path).over
    for name, values in sweeps.sobol(free, 8, seed=3).items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "write diffsim sweep module:function"),
        (["nowhere:f", "sweep.toml", "--store", "a.zarr"], "no module 'nowhere'"),
        (
            ["swept_pendulum:perod", "sweep.toml", "--store", "a.zarr"],
            "near are 'period'",
        ),
        (["swept_pendulum", "sweep.toml", "--store", "a.zarr"], "write module:name"),
        (["swept_pendulum:period", "no.toml", "--store", "a.zarr"], "no.toml"),
        (["swept_pendulum:period", "sweep.toml", "--store", "x/a.zarr"], "not exist"),
        (["--status", "none.zarr"], "does not exist"),
        *(
            ([name, "sweep.toml", "--store", "a.zarr"], message)
            for name, message in (
                ("swept_pendulum:period_of_text", "swept_pendulum.py, line"),
                ("..tm:model", "write module:name"),
                (".:model", "write module:name"),
                ("swept_pendulum..a:period", "write module:name"),
                ("swept_pendulum.:period", "write module:name"),
                ("swept_pendulum:period.", "write module:name"),
                ("os:abort", "got 'os' of Python's standard library"),
                ("os.path:join", "got 'os.path' of Python's standard"),
                ("builtins:exec", "got 'builtins' of Python's standard"),
                ("subprocess:run", "got 'subprocess' of Python's standard"),
                ("antigravity:x", "got 'antigravity' of Python's standard"),
                ("swept_pendulum:os.abort", "got 'os' of Python's standard"),
                ("swept_pendulum:rmtree", "got 'shutil' of Python's standard"),
                ("swept_pendulum:make.__class__", "got 'builtins' of Python's"),
            )
        ),
    ],
)
def test_command_that_makes_no_sense_says_why(folder, capsys, words, message):
    assert _run(*words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("os:getcwd", "got 'os' of Python's standard library"),
        ("swept_pendulum:os.getcwd", "got 'os' of Python's standard library"),
        ("..tm:model", "write module:name"),
        ("swept_pendulum:make_of_length", "must take (), got a function of (length)"),
        ("swept_pendulum:make_forever", "RecursionError: maximum recursion depth"),
        ("swept_pendulum:make_too_much", "swept_pendulum.py, line 26: MemoryError"),
        ("swept_pendulum:make_of_text", "TypeError: unsupported operand"),
    ],
)
def test_model_that_cannot_be_made_says_why(folder, capsys, model, message):
    (folder / "sweep.toml").write_text(_FILE.replace("swept_pendulum:make", model))
    assert _run("swept_pendulum:period", "sweep.toml", "--store", "a.zarr") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["swept_pendulum:make", "numpy:zeros", "wave:make"])
def test_names_of_own_modules_and_of_packages_are_found(folder, monkeypatch, name):
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    (folder / "wave.py").write_text(_MODEL)
    assert callable(named_object(name))


@pytest.mark.parametrize("part", ["2/2", "x/2", "1"])
def test_part_out_of_range_is_refused(folder, capsys, part):
    words = ["swept_pendulum:period", "sweep.toml", "--store", "a.zarr", "--part", part]
    if part == "2/2":
        assert _run(*words) == 2
        assert "from 0 to n - 1" in capsys.readouterr().err
        return
    with pytest.raises(SystemExit, match="2"):
        _run(*words)
    assert "must be I/N" in capsys.readouterr().err
