"""What a prompt, `print` and a notebook show of our objects, whatever is in them."""

import dataclasses
import xml.etree.ElementTree

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import RESULTS, nbody
from diffsim.inference import Fisher, Gaussian, fit
from diffsim.simulations import AbstractSimulation, Event, Method, simulate
from diffsim.sweeps import sweep
from diffsim.verify import convergence, taylor_test


class Decay(AbstractSimulation):
    """y' = −rate · y."""

    rate: jax.Array
    t0: float | jax.Array = 0.0

    def initial_state(self):
        return jnp.ones(())

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: -args.rate * y)

    def default_method(self):
        return Method(diffrax.Heun(), step=0.1)


def some_bodies(count=2, names=None):
    x = np.arange(3.0 * count).reshape(count, 3)
    return nbody.Bodies(1 + np.arange(count), x, -x, names=names)


def a_trajectory():
    event = Event(lambda t, y, simulation: y - 0.5)
    return simulate(Decay(jnp.array(1.0)), [0.5, 1.0], events=event)


def some_fit():
    def line(model):
        return model["a"] + model["b"] * np.arange(5.0)

    data = np.array([0.0, 1.1, 1.9, 3.0, 4.0])
    return fit(line, {"a": 1.0, "b": 0.5}, data, noise=Gaussian(0.1))


def some_fisher(count=2):
    root, names = jnp.eye(count), tuple(f"p{i}" for i in range(count))
    scale = 1 + jnp.arange(count, dtype=float)
    return Fisher(root, scale, None, RESULTS.successful, names, "expected")


def some_sweep(count=3):
    return sweep(jnp.log, jnp.ones(1), {"[0]": 1 - np.arange(float(count))})


def some_reports():
    rates = {f"rate {i}": jnp.array(1.0 + i) for i in range(2)}
    return taylor_test(lambda x: jnp.sin(sum(x.values())), rates)


CASES = {
    "bodies": some_bodies,
    "convergence": lambda: convergence(
        lambda h: jnp.array(1 + h**2), [0.4, 0.2, 0.1], exact=jnp.array(1.0)
    ),
    "degeneracy": lambda: some_fisher().degeneracies(above=0)[0],
    "fisher": some_fisher,
    "fit": some_fit,
    "sweep": some_sweep,
    "taylor": some_reports,
    "trajectory": a_trajectory,
}
SHOWN_IN_NOTEBOOKS = ("bodies", "fisher", "fit", "sweep", "trajectory")


@pytest.fixture(scope="module")
def things():
    """Each made once, when it is first wanted."""
    made = {}

    def one(name):
        if name not in made:
            made[name] = CASES[name]()
        return made[name]

    return one


@pytest.fixture(params=CASES)
def thing(request, things):
    return things(request.param)


def shown(thing):
    """What is printed, which is the same everywhere and never an error."""
    text = repr(thing)
    assert text and text == str(thing) == f"{thing}"
    if hasattr(thing, "_repr_html_"):
        parsed(thing)
    return text


def parsed(thing):
    """The HTML as a tree; it must be well formed."""
    return xml.etree.ElementTree.fromstring(thing._repr_html_())


def test_a_prompt_shows_what_print_does(thing):
    assert not shown(thing).startswith(f"{type(thing).__name__}(\n")


def test_traced_fields_are_shown_by_their_types(thing):
    seen = []
    eqx.filter_jit(lambda x: seen.append(shown(x)))(thing)
    jax.vmap(lambda x: seen.append(shown(x)) or x)(
        jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 2), numbers(thing))
    )
    assert len(seen) == 2


def numbers(thing):
    """What can be stacked."""
    return jax.tree.map(lambda x: x if eqx.is_array_like(x) else None, thing)


def test_a_batch_is_shown_by_its_types(thing):
    batched = eqx.filter_vmap(lambda _: eqx.filter(thing, eqx.is_array_like))
    shown(eqx.filter_jit(batched)(np.ones(2)))


def test_shapes_alone_are_shown(thing):
    shown(eqx.filter_eval_shape(lambda: thing))


def test_a_field_may_be_missing_or_none(thing):
    names = [field.name for field in dataclasses.fields(thing)]
    for left_out in names:
        broken, empty = (object.__new__(type(thing)) for _ in range(2))
        for name in names:
            value = getattr(thing, name)
            object.__setattr__(empty, name, None if name == left_out else value)
            if name != left_out:
                object.__setattr__(broken, name, value)
        shown(broken)
        shown(empty)


def test_what_is_known_is_shown_in_full_while_something_is_traced():
    fisher = some_fisher()
    inside = []
    jax.jit(lambda x: inside.append(shown(fisher)) or x)(1.0)
    assert inside == [repr(fisher)]


@pytest.mark.parametrize("make", [some_bodies, some_fisher])
def test_a_long_table_is_cut(make):
    lines = shown(make(100)).splitlines()
    assert "… and 80 more" in map(str.strip, lines) and len(lines) < 25
    assert "more" not in shown(make(20))


def test_what_takes_long_is_not_computed_to_be_shown(monkeypatch):
    def never(*args):
        raise AssertionError("called")

    fisher = some_fisher(1000)
    monkeypatch.setattr(Fisher, "degeneracies", never)
    monkeypatch.setattr(Fisher, "stderr", property(never))
    assert ".stderr has them" in shown(fisher)
    assert len(shown(some_bodies(1000)).splitlines()) < 25


def test_a_long_fit_is_cut(things):
    short, count = things("fit"), 1000
    wide = {
        field.name: jnp.ones((count,) * value.ndim)
        for field in dataclasses.fields(short)
        if eqx.is_array(value := getattr(short, field.name)) and value.ndim
    }
    wide["at_bound"] = wide["undetermined"] = jnp.ones(count, bool)
    names = tuple(f"p{i}" for i in range(count))
    long = dataclasses.replace(
        short,
        **wide,
        names=names,
        units=(None,) * count,
        fisher=some_fisher(count),
        model=None,
    )
    text = shown(long)
    assert "  … and 980 more" in text and len(text.splitlines()) < 60


def test_a_sweep_of_many_failures_is_cut():
    found = some_sweep(1000)
    lines = shown(found).splitlines()
    assert len(lines) < 25 and "999 failed" in lines[0]
    rows = parsed(found).findall(".//tbody/tr")
    assert len(rows) == 10


def test_what_failed_stands_first_in_a_long_taylor_test(things):
    (good, *_) = things("taylor").leaves
    bad = dataclasses.replace(good, name="wrong", flag="no effect")
    leaves = (*[good] * 30, bad)
    lines = shown(dataclasses.replace(things("taylor"), leaves=leaves)).splitlines()
    assert lines[1].startswith("wrong") and lines[-1] == "… and 11 more"


@pytest.mark.parametrize("name", ["bodies", "fisher", "fit"])
def test_html_says_what_the_text_says(name, things):
    words = " ".join(parsed(things(name)).itertext()).split()
    assert words == repr(things(name)).split()


@pytest.mark.parametrize("name", SHOWN_IN_NOTEBOOKS)
def test_notebooks_show_a_table(name, things):
    assert parsed(things(name)).find("table") is not None


def test_html_escapes_names():
    bodies = some_bodies(names=["<b>", "a & b"])
    cells = [cell.text for cell in parsed(bodies).iter("td")]
    assert {"<b>", "a & b"} <= set(cells)
    fisher = dataclasses.replace(some_fisher(), names=("<b>", "<script>"))
    assert parsed(fisher).find(".//script") is None
    assert "<script>" not in fisher._repr_html_()


def test_bodies_are_shown_by_name():
    text = shown(some_bodies(names=["Sun", "Earth"]))
    assert text.splitlines()[0] == "2 bodies in float64"
    assert text.splitlines()[2].split() == ["Sun", "1", "0", "1", "2", "-0", "-1", "-2"]
