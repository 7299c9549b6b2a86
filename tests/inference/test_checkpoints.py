"""A fit resumes from its checkpoint, and from no other fit's."""

import abc
import collections.abc
import dataclasses
import enum
import errno
import functools
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from beartype import beartype
from jaxtyping import Array, Float, jaxtyped

import diffsim as ds

# Told apart are functions without a fit of each, which would compile them all.
from diffsim._jit._fingerprint import fingerprint
from diffsim.inference import FitOptions, Free, Gaussian, LevenbergMarquardt, fit


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
        ({"data": DATA.reshape(3, 4), "predict": lambda m: 1.0}, "data, predict"),
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
    about = {"noise", "predict", "model", "transform", "solver"} & set(
        differ.split(", ")
    )
    assert ("an edited one is another" in str(e.value)) == bool(about)
    assert path.read_bytes() == kept[0].read_bytes()


# Each pair is one prediction and another; the first of each is made anew as well.
PREDICTIONS = {
    "constants": lambda x: (lambda m: m["a"] + 1.0, lambda m: m["a"] + 2.0),
    "zeros": lambda x: (lambda m: m["a"] + 0.0, lambda m: m["a"] + -0.0),
    "types": lambda x: (lambda m: m["a"] + 1, lambda m: m["a"] + True),
    "operations": lambda x: (lambda m: m["a"] + x, lambda m: m["a"] * x),
    "names": lambda x: (lambda m: m["a"], lambda m: m["b"]),
    "functions": lambda x: (lambda m: jnp.sin(m["a"]), lambda m: jnp.cos(m["a"])),
    "closures": lambda x: (shifted(x), shifted(x + 1)),
    "arrays": lambda x: (shifted(np.arange(3) + x), shifted(np.arange(3.0) + x)),
    "jax arrays": lambda x: (shifted(jnp.arange(3) + x), shifted(jnp.ones(3) + x)),
    "functions in closures": lambda x: (shifted(lambda y: y), shifted(lambda y: -y)),
    "inner functions": lambda x: (
        lambda m: jax.vmap(lambda y: y + 1)(m),
        lambda m: jax.vmap(lambda y: y + 2)(m),
    ),
    "defaults": lambda x: (lambda m, by=x: m + by, lambda m, by=x + 1: m + by),
    "keyword defaults": lambda x: (
        lambda m, *, by=x: m + by,
        lambda m, *, by=x + 1: m + by,
    ),
    "methods of objects": lambda x: (Plain(x).add, Plain(x + 1).add),
    "partial": lambda x: (
        functools.partial(with_default, by=x),
        functools.partial(with_default, by=x + 1),
    ),
    "compiled": lambda x: (jax.jit(shifted(x)), jax.jit(shifted(x + 1))),
    "filter_jit": lambda x: (eqx.filter_jit(shifted(x)), eqx.filter_jit(shifted(9))),
    "transformed": lambda x: (jax.vmap(shifted(x)), jax.vmap(shifted(x + 1))),
    "differentiated": lambda x: (jax.grad(shifted(x)), jax.grad(shifted(x + 1))),
    "cached": lambda x: (
        functools.lru_cache(shifted(x)),
        functools.lru_cache(shifted(x + 1)),
    ),
    "modules": lambda x: (Scaled(jnp.ones(2)), Scaled(jnp.zeros(2))),
    "methods": lambda x: (Scaled(jnp.ones(2)).doubled, Scaled(jnp.zeros(2)).doubled),
    "methods by name": lambda x: (Scaled(1).doubled, Scaled(1).__call__),
    "networks": lambda x: tuple(
        eqx.nn.MLP(1, 1, 2, 1, key=jax.random.key(i)) for i in (0, 1)
    ),
    "activations": lambda x: tuple(
        eqx.nn.MLP(1, 1, 2, 1, activation=f, key=jax.random.key(0))
        for f in (jax.nn.relu, jax.nn.gelu)
    ),
    "rules": lambda x: (ruled(1.0), ruled(2.0)),
    "structures": lambda x: tuple(
        shifted(jax.tree.structure([Scaled(None), y, ds.RESULTS.successful]))
        for y in ((1, 2), (1, {"a": 2}))
    ),
    "sets": lambda x: (shifted({"a", "b"}), shifted({"a", "c"})),
    "dictionaries": lambda x: (shifted({"a": 1, "b": 2}), shifted({"a": 2, "b": 1})),
    "objects": lambda x: (shifted(Plain(x)), shifted(Plain(x + 1))),
    "ufuncs": lambda x: (shifted(np.sin), shifted(np.cos)),
    "ufuncs of JAX": lambda x: (shifted(jnp.add), shifted(jnp.multiply)),
    "masked arrays": lambda x: tuple(
        shifted(np.ma.masked_array([1.0, 2.0], mask)) for mask in ([0, 1], [1, 0])
    ),
    "random keys": lambda x: tuple(shifted(jax.random.key(i)) for i in (0, 1)),
    "classes": lambda x: (shifted(Plain), shifted(Scaled)),
    "data classes": lambda x: (shifted(Noted(x)), shifted(Noted(y=(x,)))),
    "enumerations": lambda x: (shifted(Level.LOW), shifted(Level.HIGH)),
    "abstract classes": lambda x: (shifted(Abstract), shifted(collections.abc.Sized)),
    "checked annotations": lambda x: (checked(x), checked(x + 1)),
    "optimizers": lambda x: (optax.adam(0.1), optax.adam(0.2)),
    "chains": lambda x: (
        optax.chain(optax.clip(1.0), optax.sgd(0.1)),
        optax.chain(optax.clip(2.0), optax.sgd(0.1)),
    ),
    "schedules": lambda x: tuple(
        optax.sgd(optax.exponential_decay(0.1, n, 0.5)) for n in (10, 20)
    ),
}


@dataclasses.dataclass
class Noted:
    """Python writes most of its methods, some of them in every process anew."""

    x: float = 1.0
    y: tuple = ()
    z: list = dataclasses.field(default_factory=list)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def evaluate(self):
        """Something."""


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Plain:
    """Neither a module nor a dataclass."""

    def __init__(self, number):
        self.number = number

    def add(self, model):
        return decay(model) + self.number


def checked(by):
    @jaxtyped(typechecker=beartype)
    def prediction(x: Float[Array, ""]) -> Float[Array, ""]:
        return x + by

    return prediction


def ruled(slope):
    @jax.custom_jvp
    def rule(x):
        return x

    rule.defjvp(lambda primals, tangents: (primals[0], slope * tangents[0]))
    return rule


def print_fingerprints():
    for name, pair in PREDICTIONS.items():
        print(name, *(fingerprint(x).hex() for x in pair(3)), sep=": ")


#: Hashes that differ, numbers that do not.
SEPARATE = {"PYTHONHASHSEED": "1", "JAX_ENABLE_X64": "1"}


def test_fingerprint_of_a_prediction_is_the_same_in_another_process(capsys):
    """One that hashes text otherwise; of each pair the two differ."""
    root = pathlib.Path(ds.__file__).parents[1]
    code = f"import {__name__} as tests; tests.print_fingerprints()"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(root)} | SEPARATE,
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    print_fingerprints()
    found = capsys.readouterr().out
    assert other.stdout.splitlines() == found.splitlines()
    pairs = [line.split(": ") for line in found.splitlines()]
    assert [name for name, one, another in pairs if one == another] == []


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


def same_fingerprints(*things):
    return len({fingerprint(thing) for thing in things}) == 1


def test_equal_predictions_have_equal_fingerprints():
    for pair in PREDICTIONS.values():
        assert same_fingerprints(pair(3)[0], pair(3)[0])


def test_fingerprint_depends_on_globals_of_the_prediction(monkeypatch):
    before = fingerprint(decay)
    for name, new in (("TIMES", TIMES + 1), ("OFFSET", 1.0), ("helper", abs)):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, new)
            assert fingerprint(decay) != before
    assert fingerprint(decay) == before


def module_with(text, name="their_module"):
    module = types.ModuleType(name)
    exec(text, vars(module))
    return module


def test_fingerprint_depends_on_modules_of_users(monkeypatch):
    script = """
import their_module
import numpy as np
def predict(m):
    return their_module.inner(m) + np.pi
"""
    found = []
    for text in ("inner = lambda m: m", "inner = lambda m: m", "inner = lambda m: -m"):
        monkeypatch.setitem(sys.modules, "their_module", module_with(text))
        found.append(fingerprint(module_with(script, "script").predict))
    assert found[0] == found[1] != found[2]


def test_fingerprint_depends_on_methods_of_user_classes():
    texts = [
        f"""
import equinox as eqx
class Model(eqx.Module):
    x: float
    y: float = 2.0
    scale = {scale}
    def __call__(self, m):
        return self.x * m {sign} 1
"""
        for scale, sign in ((1, "+"), (1, "+"), (2, "+"), (1, "-"))
    ]
    found = [fingerprint(module_with(text).Model(1.0)) for text in texts]
    assert found[0] == found[1] and len(set(found)) == 3


def test_recursive_functions_have_a_fingerprint():
    text = """
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n {sign} 1)
def make():
    def inner(n): return inner(n - 1)
    return inner
"""
    minus, again, plus = (module_with(text.format(sign=x)) for x in "--+")
    assert same_fingerprints(minus.even, again.even)
    assert not same_fingerprints(minus.even, plus.even)
    assert same_fingerprints(minus.make(), again.make())
    endless = []
    endless.append(endless)
    assert same_fingerprints(endless, endless)


def test_fingerprint_does_not_depend_on_file_or_line():
    text = "def predict(m):\n    return [x + 1 for x in m]\n"
    one, other = module_with(text), module_with("# a comment\n\n" + text, "renamed")
    assert same_fingerprints(one.predict, other.predict)


def test_fingerprint_does_not_change_when_the_function_runs():
    """Python marks the code of what it has run often."""

    def predict(x):
        return sum(i * x for i in range(10)) + x

    before = fingerprint(predict)
    for i in range(1000):
        predict(float(i))
    assert fingerprint(predict) == before


def test_opaque_objects_are_fingerprinted_by_their_type():
    locks = [threading.Lock(), threading.Lock()]
    assert same_fingerprints(*map(shifted, locks))
    assert not same_fingerprints(shifted(locks[0]), shifted(sys.stderr))


def test_too_deep_nesting_raises_value_error(tmp_path):
    nested = ()
    for _ in range(5000):
        nested = (nested,)
    with pytest.raises(
        ValueError, match=r"nested too deeply .*leave out FitOptions\(check"
    ):
        fitted(tmp_path / "fit.eqx", predict=shifted(nested))


def test_checkpoint_of_another_python_version_raises_value_error(
    kept, tmp_path, monkeypatch
):
    path = copied(kept, tmp_path)
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.1")
    with pytest.raises(ValueError, match=r"Python 3\.\d.*, this is 3\.99\.1"):
        fitted(path, predict=shifted(1.0))
    assert fitted(path).steps == kept[1].steps


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
