"""A fit resumes from its checkpoint, and from no other fit's."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import diffsim as ds

# Told apart are functions without a fit of each, which would compile them all.
from diffsim.inference import FitOptions, Free, Gaussian, LevenbergMarquardt, fit
from diffsim.inference._checkpoint import _program


TIMES = np.linspace(0.0, 1.0, 12)
DATA = 1.5 * np.exp(-0.7 * TIMES) + 0.3 + 0.01 * np.cos(37 * TIMES)
START = {"a": 1.0, "rate": 1.0, "floor": 0.3}
OFFSET = 0.0
FREE = ("a", "rate")


def helper(x):
    return x + OFFSET


def decay(model):
    return model["a"] * jnp.exp(-model["rate"] * TIMES) + helper(model["floor"])


def given(**changes):
    """The arguments of one fit, some of them changed."""
    arguments = {
        "predict": decay,
        "model": START,
        "data": DATA,
        "noise": Gaussian(0.01),
        "free": FREE,
        "solver": None,
    }
    assert changes.keys() <= arguments.keys()
    return arguments | changes


def fitted(path, max_steps=1000, **changes):
    """The best values, without what takes time and is not asked about."""
    run = FitOptions(max_steps, checkpoint=path, covariance=False, solver_error=False)
    found = given(**changes)
    first = [found.pop(name) for name in ("predict", "model", "data")]
    return fit(*first, **found, options=run)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The checkpoint of the plain fit, and its answer without one."""
    path = tmp_path_factory.mktemp("fit") / "fit.eqx"
    fitted(path, 2)
    return path, fitted(None)


def copied(kept, folder):
    path = folder / "fit.eqx"
    path.write_bytes(kept[0].read_bytes())
    return path


def shifted(by):
    return lambda model: decay(model) + by


def with_default(model, by=0.0):
    return decay(model) + by


def swapped(data):
    data = np.array(data)
    data[[2, 5]] = data[[5, 2]]
    return data


def free(**options):
    return {"a": Free(**options), "rate": Free()}


class Scaled(eqx.Module):
    """A prediction with numbers of its own."""

    factor: jax.Array

    def __call__(self, model):
        return self.factor * decay(model)

    def doubled(self, model):
        return 2 * self.factor * decay(model)


def test_resumed_fit_equals_the_uninterrupted_fit(kept, tmp_path):
    path, best = copied(kept, tmp_path), kept[1]
    resumed = fitted(path)
    np.testing.assert_array_equal(resumed.values, best.values)
    np.testing.assert_array_equal(resumed.history["loss"], best.history["loss"])
    assert resumed.steps == best.steps and resumed.status == best.status


@pytest.mark.parametrize(
    ("changes", "differ"),
    [
        ({"model": START | {"a": 12.0}}, "start, scale"),
        ({"model": START | {"floor": 0.4}}, "model"),
        ({"free": ("rate", "a")}, "free parameters"),
        ({"free": "a"}, "model, free parameters, start, bounds, prior, scale"),
        ({"data": DATA + 1e-9}, "data"),
        ({"data": swapped(DATA)}, "data"),
        ({"noise": Gaussian(0.02)}, "noise"),
        ({"noise": Gaussian()}, "noise"),
        ({"noise": Gaussian(np.full(12, 0.01))}, "noise"),
        ({"noise": Gaussian(0.01, mask=TIMES > 0.5)}, "data, noise"),
        ({"noise": lambda model: Gaussian(0.01)}, "noise"),
        ({"free": free(bounds=(0, 5))}, "bounds"),
        ({"free": free(prior=(1, 2), scale=1.0)}, "prior"),
        ({"free": free(scale=2.0)}, "scale"),
        ({"free": free(transform="log", scale=1.0)}, "transform"),
        ({"predict": shifted(0.0)}, "predict"),
        ({"solver": LevenbergMarquardt(atol=1e-6)}, "solver"),
        ({"solver": optax.adam(1e-2)}, "solver"),
    ],
    ids=lambda x: x.replace(" ", "-") if isinstance(x, str) else "",
)
def test_checkpoint_of_another_fit_raises_value_error_naming_the_difference(
    kept, tmp_path, changes, differ
):
    path = copied(kept, tmp_path)
    with pytest.raises(ValueError, match=rf"another fit \(its {differ} differ\)") as e:
        fitted(path, **changes)
    assert str(e.value).endswith("; delete it to begin anew, or name another file")
    assert path.read_bytes() == kept[0].read_bytes()


#: Each pair is one prediction and another; the first of each is made anew as well.
PREDICTIONS = {
    "constants": lambda k: (lambda x: x + 1.0, lambda x: x + 2.0),
    "zeros": lambda k: (lambda x: x * 0.0, lambda x: x * -0.0),
    "operations": lambda k: (lambda x: x + k, lambda x: x * k),
    "arrays": lambda k: (plus(np.arange(3.0) + k), plus(np.arange(3.0) + 2 * k)),
    "integer arrays": lambda k: (plus(np.arange(3)), plus(np.arange(3.0))),
    "methods of objects": lambda k: (Plain(k).add, Plain(k + 1).add),
    "compiled": lambda k: (jax.jit(plus(k)), jax.jit(plus(k + 1))),
    "compiled inside": lambda k: (
        lambda x: jax.jit(plus(k))(x),
        lambda x: jax.jit(plus(k + 1))(x),
    ),
    "scanned": lambda k: (scanned(k), scanned(k + 1)),
    "branches": lambda k: (branches(k), branches(k + 1)),
    "activations": lambda k: tuple(
        eqx.nn.MLP("scalar", 1, 2, 1, activation=f, key=jax.random.key(0))
        for f in (jax.nn.relu, jax.nn.gelu)
    ),
    "rules": lambda k: (ruled(k), ruled(k + 1)),
    "random keys": lambda k: tuple(
        plus(jax.random.normal(jax.random.key(i))) for i in (0, 1)
    ),
    "sets of axes": lambda k: (
        lambda x: jnp.sum(x[None, None], axis=(0, 1)),
        lambda x: jnp.sum(x[None, None], axis=0),
    ),
    "optimizers": lambda k: (stepped(optax.adam(0.1)), stepped(optax.adam(0.2))),
    "schedules": lambda k: tuple(
        stepped(optax.sgd(optax.exponential_decay(0.1, n, 0.5))) for n in (10, 20)
    ),
}


def plus(number):
    return lambda x: x + number


def scanned(k):
    return lambda x: jax.lax.scan(lambda y, _: (k * y, None), x, None, 3)[0]


def branches(k):
    return lambda x: jax.lax.cond(x > 0, lambda: k * x, lambda: x)


def stepped(optimizer):
    return lambda x: optimizer.update(x, optimizer.init(x), x)


class Plain:
    """Neither a module nor a dataclass."""

    def __init__(self, number):
        self.number = number

    def add(self, x):
        return x + self.number


def ruled(slope):
    @jax.custom_jvp
    def rule(x):
        return x

    rule.defjvp(lambda primals, tangents: (primals[0], slope * tangents[0]))
    return rule


def digest(predict):
    return _program(predict, jnp.asarray(0.5))


def print_digests():
    for name, pair in PREDICTIONS.items():
        print(name, *map(digest, pair(3.0)), sep=": ")


#: Hashes that differ, numbers that do not.
SEPARATE = {"PYTHONHASHSEED": "1", "JAX_ENABLE_X64": "1"}


def test_digest_of_a_prediction_is_the_same_in_another_process(capsys):
    """One that hashes text otherwise; of each pair the two differ."""
    root = pathlib.Path(ds.__file__).parents[1]
    code = f"import {__name__} as tests; tests.print_digests()"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(root)} | SEPARATE,
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    print_digests()
    found = capsys.readouterr().out
    assert other.stdout.splitlines() == found.splitlines()
    pairs = [line.split(": ") for line in found.splitlines()]
    assert [name for name, one, another in pairs if one == another] == []


def test_checkpoint_of_a_callback_that_changed_is_refused_with_both_losses(tmp_path):
    """What it does is not traced; one run of it tells."""
    number = [1.0]

    def predict(model):
        shape = jax.ShapeDtypeStruct((), float)
        factor = jax.pure_callback(lambda: np.asarray(number[0]), shape)
        return decay(model) * jax.lax.stop_gradient(factor)

    path = tmp_path / "fit.eqx"
    fitted(path, predict=predict)
    number[0] = 1.1
    with pytest.raises(ValueError, match=r"has a loss of \S+, and .* have \S+ here"):
        fitted(path, predict=predict)


@pytest.mark.parametrize("name", ["threefry_partitionable", "default_matmul_precision"])
def test_checkpoint_under_another_setting_is_refused(kept, tmp_path, name):
    old = getattr(jax.config, f"jax_{name}")
    path = copied(kept, tmp_path)
    try:
        jax.config.update(f"jax_{name}", False if old else "float32")
        with pytest.raises(ValueError, match=f"{old} there and .* here differ"):
            fitted(path)
    finally:
        jax.config.update(f"jax_{name}", old)


@pytest.mark.slow
def test_saved_fit_is_loaded_unchanged(tmp_path):
    arguments = given(free={"a": Free(transform="log"), "rate": Free(bounds=(0, 2))})
    first = [arguments.pop(name) for name in ("predict", "model", "data")]
    before = fit(*first, **arguments)
    ds.save(tmp_path / "fit.eqx", before)
    after = ds.load(tmp_path / "fit.eqx")
    assert str(after) == str(before)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for x, y in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(x, y, strict=not isinstance(y, float))


def test_checkpoint_does_not_depend_on_masked_data(tmp_path):
    noise = Gaussian(0.01, mask=TIMES > 0.1)
    path = tmp_path / "fit.eqx"
    best = fitted(path, noise=noise)
    again = fitted(path, noise=noise, data=np.where(TIMES > 0.1, DATA, np.nan))
    np.testing.assert_array_equal(best.values, again.values)


def test_optax_fit_resumes_from_its_checkpoint(tmp_path):
    """With a random key in the optimizer's state, too."""
    solver, other = (
        optax.chain(optax.add_noise(0.1, 0.55, seed), optax.adam(1e-2))
        for seed in (0, 1)
    )
    whole = fitted(None, 7, solver=solver)
    path = tmp_path / "fit.eqx"
    for steps in (3, 7):
        found = fitted(path, steps, solver=solver)
    np.testing.assert_array_equal(found.values, whole.values)
    np.testing.assert_array_equal(found.history["loss"], whole.history["loss"])
    with pytest.raises(ValueError, match=r"another fit \(its solver differ\)"):
        fitted(path, 7, solver=other)


@pytest.mark.parametrize("missing", ["folder", "space", "permission"])
def test_unwritable_checkpoint_warns_once_and_the_fit_continues(
    kept, tmp_path, monkeypatch, missing
):
    path = tmp_path / "fit.eqx"
    monkeypatch.setattr("diffsim.inference._checkpoint._SECONDS", -1.0)
    if missing == "folder":
        path = tmp_path / "nowhere" / "fit.eqx"
    elif missing == "space":
        monkeypatch.setattr(os, "fsync", refuse(OSError(errno.ENOSPC, "No space")))
    else:
        monkeypatch.setattr(pathlib.Path, "open", refuse_to_write(pathlib.Path.open))
    with pytest.warns(UserWarning, match=r"fit\.eqx' cannot be written .*goes on") as w:
        found = fitted(path)
    assert len(w) == 1 and found.steps > 1
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(found.values, kept[1].values)


def test_directory_in_place_of_the_checkpoint_is_a_warning(tmp_path, monkeypatch):
    path = tmp_path / "fit.eqx"
    # the end of the fit is the only time that it is written
    monkeypatch.setattr("diffsim.inference._checkpoint._SECONDS", 1e9)
    run = FitOptions(progress=lambda step: path.mkdir(exist_ok=True), checkpoint=path)
    with pytest.warns(UserWarning, match="cannot be written .*must name a file"):
        assert fit(decay, START, DATA, noise=Gaussian(0.01), free=FREE, options=run)


def refuse(error):
    def refused(*args, **kwargs):
        raise error

    return refused


def refuse_to_write(opened):
    def refused(self, mode="r", *args, **kwargs):
        if "w" in mode:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return opened(self, mode, *args, **kwargs)

    return refused


@pytest.mark.parametrize("where", [0, 10, 200, -70, -1])
def test_damaged_checkpoint_raises_value_error(kept, tmp_path, where):
    path = copied(kept, tmp_path)
    content = bytearray(path.read_bytes())
    content[where] ^= 4
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"checkpoint '.*' cannot be read .*delete it"):
        fitted(path)
    path.write_bytes(kept[0].read_bytes()[:where])
    with pytest.raises(ValueError, match=r"checkpoint '.*' cannot be read .*delete it"):
        fitted(path)


def test_file_that_is_no_checkpoint_is_neither_read_nor_overwritten(tmp_path):
    path = tmp_path / "fit.eqx"
    ds.save(path, {"a": 1.0})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a file of something else; delete it"):
        fitted(path)
    assert path.read_bytes() == before
    np.savez(tmp_path / "old.npz", np.ones(3))
    with pytest.raises(ValueError, match=r"cannot be read .* name another file"):
        fitted(tmp_path / "old.npz")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_checkpoint_path_to_a_directory_or_pipe_raises_value_error(tmp_path, kind):
    path = tmp_path / "some"
    if kind == "folder":
        path.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        pytest.skip("there are no pipes in folders here")
    with pytest.raises(ValueError, match="checkpoint must name a file, got") as found:
        fitted(path)
    assert "delete" not in str(found.value) and path.exists()


def test_checkpoint_behind_a_symlink_keeps_the_symlink(kept, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    target, link = copied(kept, folder), tmp_path / "link.eqx"
    link.symlink_to(target)
    before = target.read_bytes()
    fitted(link, 3)
    assert link.is_symlink() and target.read_bytes() != before


def test_checkpoint_with_another_state_structure_raises_value_error(kept, tmp_path):
    path = copied(kept, tmp_path)
    found = ds.load(path)
    ds.save(path, found | {"state": (*found["state"][:-2], found["state"][-1])})
    with pytest.raises(ValueError, match="another release of diffsim or Optax; delete"):
        fitted(path)


def test_traced_fit_writes_no_checkpoint(tmp_path):
    """One whose prediction closes over a tracer is one compiled call."""

    def best(shift):
        found = fitted(tmp_path / "fit.eqx", predict=lambda m: decay(m) + shift)
        return found.values[0]

    assert np.isfinite(jax.jit(best)(0.0))
    assert not list(tmp_path.iterdir())


_SCRIPT = """
import functools, os, signal, sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import diffsim as ds
from diffsim.inference import FitOptions, Gaussian, fit

times = np.linspace(0, 1, 12)
labels = {"a", "b", "c"}

def curve(model, scale):
    assert labels
    return scale * model["a"] * jnp.exp(-model["rate"] * times)

def killed(step):
    if step["step"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)

ds.inference._checkpoint._SECONDS = -1.0
predict = functools.partial(jax.jit(lambda m, s: curve(m, s)), s=2.0)
data = 3 * np.exp(-0.7 * times) + 0.01 * np.cos(37 * times)
path, die = sys.argv[1:]
run = FitOptions(checkpoint=path or None, progress=killed if die == "die" else None)
model = {"a": 8.0, "rate": 5.0}
found = fit(predict, model, data, noise=Gaussian(0.01), options=run)
print(int(found.steps), [float(x).hex() for x in (*found.values, *found.stderr)])
"""


@pytest.mark.slow
def test_killed_script_resumes_from_its_checkpoint(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT)
    root = str(pathlib.Path(ds.__file__).parents[1])

    def run(path, how):
        return subprocess.run(
            [sys.executable, "script.py", path, how],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("fit.eqx", "die").returncode < 0
    assert (tmp_path / "fit.eqx").exists()
    resumed, whole = run("fit.eqx", "live"), run("", "live")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout != ""


_RESTARTED = """
import json, os, signal, sys, threading
import jax, jax.numpy as jnp, numpy as np, optax
jax.config.update("jax_enable_x64", True)
import diffsim as ds
from diffsim.inference import FitOptions, Gaussian, fit

times = np.linspace(0, 1, 12)
ds.inference._checkpoint._SECONDS = 0.0
path, kills = sys.argv[1], json.loads(sys.argv[2])
left = 0

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def taken(step):  # compiled, and so in the midst of steps and files
    global left
    left -= 1
    if left == 0:
        threading.Timer(seconds, kill).start()

def fitted():
    data = 3 * np.exp(-0.7 * times) + 0.01 * np.cos(37 * times)
    run = FitOptions(checkpoint=path or None, progress=taken, max_steps=3000)
    solver = optax.adam(optax.exponential_decay(0.05, 300, 0.6))
    predict = lambda m: m["a"] * jnp.exp(-m["rate"] * times)
    given = {"noise": Gaussian(0.01), "solver": solver, "options": run}
    return fit(predict, {"a": 8.0, "rate": 5.0}, data, **given)

for killed, (steps, seconds) in enumerate(kills):
    child = os.fork()  # before JAX has started: only what is imported is shared
    if child == 0:
        left = steps
        fitted()
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL, killed
found = fitted()
print(int(found.steps), [float(x).hex() for x in (*found.values, *found.stderr)])
"""


@pytest.mark.slow
def test_fit_that_is_killed_twenty_times_has_the_same_answer(tmp_path):
    """At random moments of steps and of writing; each run goes on from the last."""
    (tmp_path / "script.py").write_text(_RESTARTED)
    root = str(pathlib.Path(ds.__file__).parents[1])
    rng = np.random.default_rng(3)

    # A step takes some 3 ms, and the fit 382 of them.
    kills = [(int(rng.integers(1, 12)), 0.005 * rng.random()) for _ in range(20)]

    def run(path, kills):
        return subprocess.run(
            [sys.executable, "script.py", path, json.dumps(kills)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": root, "DIFFSIM_UNCHECKED": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    resumed, whole = run("fit.eqx", kills), run("", [])
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout != ""
