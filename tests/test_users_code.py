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

import diffsim as ds
from diffsim import implicit
from diffsim._jit import _fresh_jit
from diffsim._jit._calls import Run
from diffsim.inference import FitOptions, Gaussian


#: For each way what stands before, how the number is read, and what changes it.
WAYS = {
    "global": ("k = 1.0", "k", "k = new"),
    "global by name": ("k = 1.0", "globals()['k']", "k = new"),
    "global by eval": ("k = 1.0", "eval('k')", "k = new"),
    "builtin": ("builtins.way_k = 1.0", "way_k", "builtins.way_k = new"),
    "function": ("def get(): return 1.0", "get()", "get = lambda: new"),
    "function that calls one": (
        "def inner(): return 1.0\ndef get(): return inner()",
        "get()",
        "inner = lambda: new",
    ),
    "code of a function": (
        "def get(): return k1\ndef other(): return k2\nk1 = 1.0",
        "get()",
        "k1 = k2 = new; get.__code__ = other.__code__",
    ),
    "default": ("def get(k=1.0): return k", "get()", "get.__defaults__ = (new,)"),
    "keyword default": (
        "def get(*, k=1.0): return k",
        "get()",
        "get.__kwdefaults__['k'] = new",
    ),
    "attribute of a function": (
        "def get(): return get.k\nget.k = 1.0",
        "get()",
        "get.k = new",
    ),
    "closure": (
        "def make():\n  k = 1.0\n  def get(): return k\n  def put(new):\n"
        "    nonlocal k\n    k = new\n  return get, put\nget, put = make()",
        "get()",
        "put(new)",
    ),
    "generator": (
        "def forever():\n  while True: yield k\nk, numbers = 1.0, forever()",
        "next(numbers)",
        "k = new",
    ),
    "partial": (
        "import functools, operator\nget = functools.partial(operator.mul, 1.0)",
        "get(1.0)",
        "get = functools.partial(operator.mul, new)",
    ),
    "attrgetter": (
        "import operator\nx = types.SimpleNamespace(k=1.0)\n"
        "get = operator.attrgetter('k')",
        "get(x)",
        "x.k = new",
    ),
    "module": ("m = types.ModuleType('m')\nm.k = 1.0", "m.k", "m.k = new"),
    "module by a local name": (
        "m = types.ModuleType('m')\nm.k = 1.0\ndef get():\n  c = m\n  return c.k",
        "get()",
        "m.k = new",
    ),
    "module by getattr": (
        "m = types.ModuleType('m')\nm.k = 1.0",
        "getattr(m, 'k')",
        "m.k = new",
    ),
    "module by vars": (
        "m = types.ModuleType('m')\nm.k = 1.0",
        "vars(m)['k']",
        "m.k = new",
    ),
    "import where it runs": (
        "def get():\n  import way_module as c\n  return c.k\nway_module.k = 1.0",
        "get()",
        "way_module.k = new",
    ),
    "import of a name where it runs": (
        "def get():\n  from way_module import k\n  return k\nway_module.k = 1.0",
        "get()",
        "way_module.k = new",
    ),
    "import in the enclosing function": (
        "def make():\n  import way_module as c\n  return lambda: c.k\n"
        "way_module.k = 1.0\nget = make()",
        "get()",
        "way_module.k = new",
    ),
    "import by a string": (
        "import importlib\nway_module.k = 1.0",
        "importlib.import_module('way_module').k",
        "way_module.k = new",
    ),
    "module that is imported anew": (
        "way_module.k = 1.0",
        "sys.modules['way_module'].k",
        "sys.modules['way_module'] = types.SimpleNamespace(k=new)",
    ),
    "module with the name of a standard one": (
        "profile = types.ModuleType('profile')\n"
        "exec('k = 1.0\\ndef get(): return k', vars(profile))",
        "profile.get()",
        "profile.k = new",
    ),
    "attribute of a standard module": (
        "string.way_k = 1.0",
        "string.way_k",
        "string.way_k = new",
    ),
    "attribute of an installed module": (
        "np.way_k = 1.0",
        "np.way_k",
        "np.way_k = new",
    ),
    "list": ("ks = [1.0]", "ks[0]", "ks[0] = new"),
    "list that grows": ("ks = [1.0]", "ks[-1]", "ks.append(new)"),
    "dict": ("ks = {'a': 1.0}", "ks['a']", "ks['a'] = new"),
    "order of a dict": (
        "ks = {'a': 1.0, 'b': 2.0}",
        "next(iter(ks.values()))",
        "ks = dict(sorted(ks.items(), key=lambda item: item[1] != new))",
    ),
    "set": ("ks = {1.0}", "max(ks)", "ks.clear(); ks.add(new)"),
    "deque": ("ks = collections.deque([1.0])", "ks[0]", "ks[0] = new"),
    "default dict": (
        "ks = collections.defaultdict(lambda: k)\nk = 1.0",
        "ks.default_factory()",
        "k = new",
    ),
    "chain of dicts": (
        "below = {'k': 1.0}\nks = collections.ChainMap({}, below)",
        "ks['k']",
        "below['k'] = new",
    ),
    "list in a tuple": ("ks = (0, [1.0])", "ks[1][0]", "ks[1][0] = new"),
    "entry of an array": ("ks = np.ones(3)", "ks[1]", "ks[1] = new"),
    "whole array": ("ks = np.ones(3)", "ks.mean()", "ks[:] = new"),
    "view of an array": ("ks = np.ones(3)\nk = ks[1:]", "k[0]", "ks[1] = new"),
    "array of JAX": ("k = jnp.ones(())", "k", "k = jnp.asarray(new)"),
    "array.array": (
        "import array\nks = array.array('d', [1.0])",
        "ks[0]",
        "ks[0] = new",
    ),
    "ctypes": (
        "import ctypes\nk = ctypes.c_double(1.0)",
        "k.value",
        "k.value = new",
    ),
    "namespace": ("x = types.SimpleNamespace(k=1.0)", "x.k", "x.k = new"),
    "object": ("class X: pass\nx = X()\nx.k = 1.0", "x.k", "x.k = new"),
    "object with slots": (
        "class X: __slots__ = 'k'\nx = X()\nx.k = 1.0",
        "x.k",
        "x.k = new",
    ),
    "dict of an object": (
        "class X: pass\nx = X()\nx.k = 1.0",
        "x.__dict__['k']",
        "x.k = new",
    ),
    "class": ("class X: k = 1.0", "X.k", "X.k = new"),
    "class of an object": ("class X: k = 1.0\nx = X()", "x.k", "X.k = new"),
    "base class": ("class B: k = 1.0\nclass X(B): pass\nx = X()", "x.k", "B.k = new"),
    "metaclass": (
        "class M(type): k = 1.0\nclass X(metaclass=M): pass",
        "X.k",
        "M.k = new",
    ),
    "private name of an abstract class": (
        "import abc\nclass X(abc.ABC): _abc_k = 1.0",
        "X._abc_k",
        "X._abc_k = new",
    ),
    "method": (
        "class X:\n  def get(self): return 1.0\nx = X()",
        "x.get()",
        "X.get = lambda self: new",
    ),
    "method of one object": (
        "class X:\n  def get(self): return 1.0\nx = X()",
        "x.get()",
        "x.get = lambda: new",
    ),
    "class method": (
        "class X:\n  k = 1.0\n  @classmethod\n  def get(cls): return cls.k",
        "X.get()",
        "X.k = new",
    ),
    "static method": (
        "class X:\n  @staticmethod\n  def get(): return 1.0",
        "X.get()",
        "X.get = staticmethod(lambda: new)",
    ),
    "property": (
        "class X:\n  @property\n  def k(self): return X.hidden\n"
        "X.hidden = 1.0\nx = X()",
        "x.k",
        "X.hidden = new",
    ),
    "descriptor": (
        "class D:\n  k = 1.0\n  def __get__(self, *_): return D.k\n"
        "class X: k = D()\nx = X()",
        "x.k",
        "D.k = new",
    ),
    "attributes on demand": (
        "class X:\n  def __getattr__(self, name): return k\nk, x = 1.0, X()",
        "x.anything",
        "k = new",
    ),
    "items on demand": (
        "class X:\n  def __getitem__(self, i): return k\nk, x = 1.0, X()",
        "x[0]",
        "k = new",
    ),
    "object that is called": (
        "class X:\n  def __call__(self): return self.k\nx = X()\nx.k = 1.0",
        "x()",
        "x.k = new",
    ),
    "data class": (
        "import dataclasses\n@dataclasses.dataclass\nclass X:\n  k: float\nx = X(1.0)",
        "x.k",
        "x.k = new",
    ),
    "attribute of a data class that is no field": (
        "import dataclasses\n@dataclasses.dataclass\nclass X:\n  a: float\n"
        "x = X(0.0)\nx.k = 1.0",
        "x.k",
        "x.k = new",
    ),
    "attribute of an enumeration": (
        "import enum\nclass X(enum.Enum): A = 1\nX.A.k = 1.0",
        "X.A.k",
        "X.A.k = new",
    ),
    "object with an equality of its own": (
        "class X:\n  def __eq__(self, other): return True\n"
        "  def __hash__(self): return 0\nx = X()\nx.k = 1.0",
        "x.k",
        "x = X(); x.k = new",
    ),
    "weak reference": (
        "import weakref\nclass X: pass\nx = X()\nx.k, ref = 1.0, weakref.ref(x)",
        "ref().k",
        "x.k = new",
    ),
    "environment": (
        "os.environ['WAY_K'] = '1.0'",
        "float(os.environ['WAY_K'])",
        "os.environ['WAY_K'] = str(new)",
    ),
    "file": (
        "path.write_text('1.0')",
        "float(path.read_text())",
        "path.write_text(str(new))",
    ),
    "context variable": (
        "k = contextvars.ContextVar('k', default=1.0)",
        "k.get()",
        "k.set(new)",
    ),
    "local to a thread": ("x = threading.local()\nx.k = 1.0", "x.k", "x.k = new"),
    "branch": ("k = 1.0", "2.0 if k > 1.5 else 1.0", "k = new"),
    "number of times": ("k = 1.0", "sum(1.0 for _ in range(int(k)))", "k = new"),
}

#: Ways of classes alone: what stands in the class, how it is read, what changes it.
WAYS_OF_CLASSES = {
    "class attribute": ("k = 1.0", "self.k", "Model.k = new"),
    "class attribute by type": ("k = 1.0", "type(self).k", "Model.k = new"),
    "class dict": ("ks = {'a': 1.0}", "self.ks['a']", "Model.ks['a'] = new"),
    "own method": (
        "def get(self): return 1.0",
        "self.get()",
        "Model.get = lambda self: new",
    ),
    "own property": (
        "@property\n  def k(self): return hidden",
        "self.k",
        "hidden = new",
    ),
    "own static method": (
        "@staticmethod\n  def get(): return hidden",
        "self.get()",
        "hidden = new",
    ),
    "method of a parent": ("pass", "self.parents()", "Parent.parents = lambda s: new"),
    "method of super": ("pass", "super().parents()", "Parent.parents = lambda s: new"),
    "list in a static field": (
        "fixed: list = eqx.field(static=True, default_factory=lambda: [1.0])",
        "self.fixed[0]",
        "model.fixed[0] = new",
    ),
    "object in a field": (
        "held: object = eqx.field(default_factory=lambda: threading.local())",
        "getattr(self.held, 'k', 1.0)",
        "model.held.k = new",
    ),
    "function in a field": (
        "get: object = eqx.field(default_factory=lambda: lambda: hidden)",
        "self.get()",
        "hidden = new",
    ),
    "function in a static field": (
        "get: object = eqx.field(static=True, default_factory=lambda: lambda: hidden)",
        "self.get()",
        "hidden = new",
    ),
    "array in a dict in a field": (
        "ks: dict = eqx.field(default_factory=lambda: {'a': np.ones(2)})",
        "self.ks['a'][1]",
        "model.ks['a'][1] = new",
    ),
    "function in a list in a field": (
        "gets: list = eqx.field(default_factory=lambda: [lambda: hidden])",
        "self.gets[0]()",
        "hidden = new",
    ),
}

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
