"""Whatever users' code reads is read in every call, however it reads it."""

import builtins
import collections
import contextvars
import gc
import os
import string
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ways_of_reading import WAYS, WAYS_OF_CLASSES

import diffsim as ds
from diffsim import implicit
from diffsim._jit import _fresh_jit
from diffsim._jit._fresh_jit import Run
from diffsim.inference import FitOptions, Gaussian


#: A function and a class of each use; `{k}` is how the number is read.
SOURCE = """
{before}

def residual(y, args): return y - {function}
def observe(t, y): return {function} * y
def predict(p): return {function} * p

class Parent(eqx.Module):
  def parents(self): return hidden

class Model(Parent):
  {members}
  def __call__(self, p): return {method} * p
  def gap(self, y, args): return y - {method}

class Decay(ds.AbstractSimulation, Parent):
  {members}
  t0: float = 0.0
  def initial_state(self): return {method} * jnp.ones(2)
  def terms(self): return diffrax.ODETerm(lambda t, y, args: 0.0 * y)
  def default_method(self): return ds.Method(diffrax.Euler(), step=0.5)
  def observe(self, t, y): return y
"""


class Still(ds.AbstractSimulation):
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(2)

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: jnp.zeros_like(y))

    def default_method(self):
        return ds.Method(diffrax.Euler(), step=0.5)


NOISE = Gaussian(0.1)
TWO = np.array([2.0, 4.0])


class Changing:
    """Code that reads a number in some way, and a way to change it."""

    def __init__(self, way, kind, folder, monkeypatch):
        before, members, read, self.change = "", "pass", "1.0", ""
        if way in WAYS:
            before, read, self.change = WAYS[way]
        else:
            members, read, self.change = WAYS_OF_CLASSES[way]
        module = types.ModuleType("code_of_a_user")
        monkeypatch.setitem(sys.modules, "way_module", types.ModuleType("way_module"))
        monkeypatch.setitem(os.environ, "WAY_K", "1.0")
        for library, name in (string, "way_k"), (builtins, "way_k"), (np, "way_k"):
            monkeypatch.setattr(library, name, 1.0, raising=False)
        self.names = vars(module) | {
            "builtins": builtins,
            "collections": collections,
            "contextvars": contextvars,
            "diffrax": diffrax,
            "ds": ds,
            "eqx": eqx,
            "hidden": 1.0,
            "jnp": jnp,
            "np": np,
            "os": os,
            "path": folder / "number",
            "string": string,
            "sys": sys,
            "threading": threading,
            "types": types,
            "way_module": sys.modules["way_module"],
        }
        function = read if way in WAYS else "1.0"
        text = SOURCE.format(
            before=before,
            members=members,
            function=f"({function})",
            method=f"({read})",
        )
        exec(text, self.names)
        self.by_class, self.folder = kind == "class", folder
        model = self.names["Decay"]() if self.by_class else Still()
        self.names["model"] = self.simulation = model
        self.called = self.names["Model"]()

    def set(self, number):
        self.names["new"] = number
        model = self.names["Model"]
        for cls in (self.names["Decay"], model):
            self.names["Model"] = cls
            exec(self.change, self.names)
        for name in ("fixed", "held", "ks", "gets", "get"):
            # Both models read what one of them holds.
            if name in vars(self.simulation):
                object.__setattr__(self.called, name, vars(self.simulation)[name])

    @property
    def predict(self):
        return self.called if self.by_class else self.names["predict"]

    def simulate(self):
        observe = None if self.by_class else self.names["observe"]
        return ds.simulate(self.simulation, 0.5, observe=observe).states[0]

    def root(self):
        gap = self.called.gap if self.by_class else self.names["residual"]
        return implicit.root(gap, jnp.asarray(1.0))

    def fit(self):
        return 2 / ds.fit(self.predict, jnp.ones(2), TWO, noise=NOISE).values[0]

    def sweep(self, store=None):
        over = {"[0]": [1.0, 3.0]}
        return ds.sweep(self.predict, jnp.ones(2), over, store=store).outputs[0, 0]

    def checkpoint(self):
        options = FitOptions(checkpoint=self.folder / "fit.eqx")
        found = ds.fit(self.predict, jnp.ones(2), TWO, noise=NOISE, options=options)
        return 2 / found.values[0]

    def store(self):
        return self.sweep(self.folder / "runs.zarr")


USES = {
    "simulate": [],
    "root": [],
    "fit": [pytest.mark.slow],
    "sweep": [pytest.mark.slow],
    "checkpoint": [pytest.mark.slow],
    "store": [pytest.mark.slow],
}
ROWS = [("function", way) for way in WAYS]
ROWS += [("class", way) for way in (*WAYS, *WAYS_OF_CLASSES)]


@pytest.mark.parametrize(
    "use", [pytest.param(use, marks=marks) for use, marks in USES.items()]
)
@pytest.mark.parametrize(("kind", "way"), ROWS)
def test_what_users_code_reads_is_read_in_every_call(
    use, kind, way, tmp_path, monkeypatch
):
    code = Changing(way, kind, tmp_path, monkeypatch)
    call = getattr(code, use)
    assert float(call()) == pytest.approx(1.0, rel=1e-6)
    code.set(2.0)
    if use in ("checkpoint", "store"):
        with pytest.raises(ValueError, match=r"its predict differ|has a loss of"):
            call()
        return
    assert float(call()) == pytest.approx(2.0, rel=1e-6)
    code.set(1.0)
    assert float(call()) == pytest.approx(1.0, rel=1e-6)


class Free(ds.AbstractSimulation):
    """A field that is called with its own simulation, as in a script for Diffrax."""

    start: jax.Array
    field: object
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return diffrax.ODETerm(self.field)

    def default_method(self):
        return ds.Method(diffrax.Heun(), step=0.05)


def test_a_field_that_is_called_with_its_simulation_is_followed(compilations):
    def final(k):
        one = jnp.ones(())
        model = Free(one, lambda t, y, model: -k * y + 0 * model.start)
        return ds.simulate(model, 1.0).states

    np.testing.assert_allclose(final(1.0), np.exp(-1.0), rtol=1e-3)
    before = compilations()
    np.testing.assert_allclose(final(2.0), np.exp(-2.0), rtol=5e-3)
    assert compilations() == before


FACTOR = 1.0


class Doubling(diffrax.Euler):
    """A solver that reads a global."""

    def step(self, *args):
        y, *rest = super().step(*args)
        return FACTOR * y, *rest


class Scaled(diffrax.ODETerm):
    def vf(self, t, y, args):
        return FACTOR * super().vf(t, y, args)


class Growing(Free):
    def terms(self):
        return Scaled(self.field)


def _user_norm(x):
    return FACTOR * jnp.max(jnp.abs(x))


@pytest.mark.parametrize("kind", ["solver", "term", "norm"])
def test_solvers_terms_and_norms_of_users_are_followed(kind, monkeypatch):
    def states():
        grows = Growing if kind == "term" else Free
        model = grows(jnp.ones(()), lambda t, y, args: jnp.ones_like(y))
        method = ds.Method(
            Doubling() if kind == "solver" else diffrax.Euler(), step=0.5
        )
        if kind == "norm":
            controller = diffrax.PIDController(rtol=0.1, atol=0.1, norm=_user_norm)
            method = ds.Method(diffrax.Dopri5(), controller=controller)
            oscillates = lambda t, y, args: jnp.sin(30 * t)  # noqa: E731
            return ds.simulate(Free(jnp.ones(()), oscillates), 1.0, method).states
        return ds.simulate(model, 0.5, method).states

    first = states()
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    second = states()
    if kind == "norm":
        assert abs(second - first) > 1e-9
        return
    np.testing.assert_allclose([first, second], [1.5, 3.0 if kind == "solver" else 2.0])


def cubes_root(k):
    return implicit.root(lambda y, args: y**3 - k, 1.0), k ** (1 / 3)


def observed(k):
    run = ds.simulate(Still(), 0.5, observe=lambda t, y: k * y)
    return run.states[0], k


def slope(k):
    found = ds.fit(lambda p: k * p, jnp.ones(2), TWO, noise=NOISE)
    return found.values[0], 2 / k


def swept(k):
    found = ds.sweep(lambda p: k * p, jnp.ones(2), {"[0]": [1.0, 3.0]})
    return found.outputs[1, 0], 3 * k


@pytest.mark.parametrize(
    ("call", "times"),
    [
        (cubes_root, 25),
        *(
            pytest.param(call, 200, marks=pytest.mark.slow)
            for call in (cubes_root, observed, slope, swept)
        ),
    ],
)
def test_eight_threads_have_their_own_numbers(call, times):
    def worst(thread):
        pairs = [call(k) for k in np.linspace(0.5 + thread, 1.5 + thread, times)]
        return max(abs(float(found) / expected - 1) for found, expected in pairs)

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(worst, range(8))) < 1e-6


def test_a_change_during_a_call_counts_from_the_next_call_on(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", 1.0)

    def change(number):
        globals()["FACTOR"] = 2.0

    def fitted():
        options = FitOptions(progress=change)
        predict = lambda p: FACTOR * p  # noqa: E731
        return ds.fit(predict, jnp.ones(2), TWO, noise=NOISE, options=options).values

    np.testing.assert_allclose(fitted(), TWO, rtol=1e-9)
    np.testing.assert_allclose(fitted(), TWO / 2, rtol=1e-9)


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_two_thousand_functions_take_no_memory():
    for k in range(20):
        cubes_root(1.0 + k)
    before = resident()
    for k in range(2000):
        cubes_root(1.0 + k)
    assert resident() - before < 50e6


def runs():
    gc.collect()
    return sum(type(x) is Run for x in gc.get_objects())


def test_programs_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(_fresh_jit, "_MOST", 4)

    @_fresh_jit.fresh_jit
    def called(function, x):
        return function(x)

    before = runs()
    for power in range(2, 22):
        assert called(lambda x, power=power: x**power, 2.0) == 2.0**power
    assert runs() - before <= 4


def test_another_class_that_does_the_same_compiles_nothing(compilations):
    def made(k):
        class Line(eqx.Module):
            slope: float

            def __call__(self, y, args):
                return k * y - self.slope

        return Line(3.0)

    assert implicit.root(made(1.0), 1.0) == 3.0
    before = compilations()
    assert implicit.root(made(2.0), 1.0) == 1.5
    assert compilations() == before


def ruled(k):
    @jax.custom_jvp
    def function(x):
        return x**2

    function.defjvp(lambda x, dx: (x[0] ** 2, k * x[0] * dx[0]))
    return function


def test_rules_of_derivatives_are_part_of_the_program(compilations):
    """Two functions of one value, whose derivatives differ."""

    def by(function, x):
        return lambda t, y: function(x) * y

    def gradient(k):
        function = ruled(k)

        def final(x):
            return ds.simulate(Still(), 0.5, observe=by(function, x)).states[0]

        return jax.grad(final)(3.0)

    assert [gradient(2.0), gradient(5.0)] == [6.0, 15.0]
    before = compilations()
    assert gradient(5.0) == 15.0
    assert compilations() == before


@jax.tree_util.register_pytree_node_class
class Registered:
    """A callable that JAX knows, and Equinox does not."""

    def __init__(self, number):
        self.number = number

    def tree_flatten(self):
        return (self.number,), None

    @classmethod
    def tree_unflatten(cls, structure, children):
        return cls(*children)

    def __call__(self, y, args):
        return y - FACTOR * self.number


def _gap(number, y, args):
    return y - FACTOR * number


@pytest.mark.parametrize(
    "made", [Registered, lambda k: jax.tree_util.Partial(_gap, k)], ids=["own", "JAX"]
)
def test_callable_pytrees_are_followed_and_keep_their_leaves(made, monkeypatch):
    residual = made(jnp.array(3.0))
    assert implicit.root(residual, 1.0) == 3.0
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert implicit.root(residual, 1.0) == 6.0

    def predict(model):
        return -model["gap"](jnp.zeros(2), None) + model["b"]

    model = {"b": 1.0, "gap": residual}
    fit = ds.fit(predict, model, np.array([3.0, 3.0]), noise=NOISE, free="gap[0]")
    assert type(fit.model["gap"]) is type(residual)
    np.testing.assert_allclose(fit.values, [1.0])


class Phase(eqx.Module):
    """A state that is a module, with a method of its own."""

    x: jax.Array
    v: jax.Array

    def energy(self):
        return self.x**2 + self.v**2


class Swing(ds.AbstractSimulation):
    t0: float = 0.0

    def initial_state(self):
        return Phase(jnp.ones(()), jnp.zeros(()))

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: Phase(y.v, -y.x))

    def default_method(self):
        return ds.Method(diffrax.Dopri5(), step=0.1)


def test_a_state_may_be_a_module_of_a_users_class():
    run = ds.simulate(Swing(), [0.5, 1.0])
    assert type(run.states) is type(run.final.y) is Phase
    np.testing.assert_allclose(run.states.x, np.cos([0.5, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(run.states.energy(), 1.0, rtol=1e-6)


class Mixin:
    """No module of Equinox's."""

    def terms(self):
        return diffrax.ODETerm(lambda t, y, simulation: -simulation.rate() * y)

    def rate(self):
        return FACTOR


class Mixed(Mixin, ds.AbstractSimulation):
    t0: float = 0.0
    scale: float = 2.0

    def __init__(self):
        """It leaves all fields to the defaults of the class."""

    def initial_state(self):
        return self.scale * jnp.ones(())

    def default_method(self):
        return ds.Method(diffrax.Euler(), step=0.5)


def test_mixins_and_defaults_of_fields_are_followed(monkeypatch):
    assert ds.simulate(Mixed(), 0.5).states == 1.0
    monkeypatch.setitem(globals(), "FACTOR", 1.5)
    assert ds.simulate(Mixed(), 0.5).states == 0.5


class Likelihood:
    """A plain object; the library asks whether it has more attributes."""

    def __init__(self, sigma):
        self.sigma = sigma

    def log_prob(self, prediction, data):
        return -jnp.sum(((prediction - data) / self.sigma) ** 2) / 2


def test_fits_with_plain_objects_as_likelihoods_compile_once(compilations):
    def fitted(sigma):
        return ds.fit(lambda p: p, jnp.ones(2), TWO, noise=Likelihood(sigma)).stderr

    np.testing.assert_allclose(fitted(0.1), 0.1, rtol=1e-6)
    before = compilations()
    np.testing.assert_allclose(fitted(0.2), 0.2, rtol=1e-6)
    assert compilations() == before


def test_values_in_static_fields_are_those_of_the_call():
    class Typed(eqx.Module):
        value: object = eqx.field(static=True)

        def __call__(self, y, args):
            return y - {int: 1.0, float: 2.0, bool: 3.0}[type(self.value)]

    roots = [implicit.root(Typed(value), 1.0) for value in (1, 1.0, True)]
    assert roots == [1.0, 2.0, 3.0]
