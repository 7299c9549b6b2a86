"""What was saved comes back, to the bit."""

from collections import OrderedDict
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, nbody
from diffsim.simulations import Method, load, save, simulate


class Orbit(NamedTuple):
    """What a user's state may be."""

    period: Any
    points: Any


def system():
    bodies = nbody.Bodies(
        [1.0, 1e-3],
        [[0.0, 0, 0], [1, 0, 0]],
        [[0.0, -1e-3, 0], [0, 1, 0]],
        names=["Sun", "Jupiter"],
    )
    forces = nbody.Gravity(softening=0.01), nbody.PostNewtonian(1e4, central=0)
    tracers = nbody.Tracers(np.ones((3, 3)), np.zeros((3, 3)))
    return nbody.NBody(bodies, forces, tracers=tracers, t0=0.25)


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert isinstance(x, jax.Array) == isinstance(y, jax.Array)
        np.testing.assert_array_equal(x, y)
        assert np.asarray(x).dtype == np.asarray(y).dtype


def test_a_simulation_comes_back_and_runs_the_same(tmp_path):
    before, method = system(), Method(diffrax.Heun(), 0.125)
    save(tmp_path / "system.eqx", before)
    after = load(tmp_path / "system.eqx")
    same(after, before)
    assert after.bodies.names == ("Sun", "Jupiter") and after.t0 == 0.25
    same(simulate(after, 1.0, method).states, simulate(before, 1.0, method).states)


def test_a_trajectory_comes_back_and_goes_on(tmp_path):
    method = Method(diffrax.Heun(), 0.125)
    before = simulate(system(), [0.5, 1.0], method)
    save(str(tmp_path / "run.eqx"), before)
    after = load(str(tmp_path / "run.eqx"))
    same(after, before)
    assert after.result == ds.RESULTS.successful
    rest = [simulate(system(), 2.0, method, start=x.final) for x in (before, after)]
    same(*(x.states for x in rest))


@pytest.mark.parametrize(
    "tree",
    [
        Method(integrators.Yoshida4(), 0.1, max_steps=7),
        {"a": [1, 2.5, None, "text", True], "b": (np.arange(3), jnp.zeros((2, 0)))},
        [np.float32(1.5), jnp.asarray(3, jnp.int32), jnp.asarray([True, False])],
        {"function": jnp.sin, "half": jnp.ones(2, jnp.float16)},
        # MLP's own final activation is a lambda, which has no name.
        eqx.nn.MLP(2, 1, 4, 1, final_activation=jnp.tanh, key=jax.random.key(0)),
        {1: 2.0, 2: "whole numbers are keys"},
        [Orbit(1.5, jnp.ones(2)), Orbit(Orbit(None, 1), ())],
    ],
    ids=[
        "method",
        "containers",
        "scalars",
        "function",
        "network",
        "keys",
        "named tuples",
    ],
)
def test_trees_of_modules_come_back(tmp_path, tree):
    save(tmp_path / "tree.eqx", tree)
    same(load(tmp_path / "tree.eqx"), tree)


def test_a_method_of_a_module_comes_back(tmp_path):
    pull = nbody.Gravity(softening=0.5).acceleration
    save(tmp_path / "x.eqx", pull)
    arguments = 0.0, jnp.eye(3)[:, :2], None, jnp.ones(2)
    found = load(tmp_path / "x.eqx")(*arguments)
    np.testing.assert_array_equal(found, pull(*arguments))


def test_single_precision_stays_single(tmp_path):
    before = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_array(x) else x, system()
    )
    save(tmp_path / "x.eqx", before)
    same(load(tmp_path / "x.eqx"), before)


def test_what_cannot_be_found_again_is_named(tmp_path):
    force = [nbody.Gravity(), lambda t, state: 0 * state.positions]
    tree = nbody.NBody(system().bodies, force)
    with pytest.raises(ValueError, match=r"tree.forces\[1\] is .*<lambda>.*no name"):
        save(tmp_path / "x.eqx", tree)
    for odd in (object(), OrderedDict(a=1.0)):
        with pytest.raises(ValueError, match=r"tree\['odd'\] is a .*cannot describe"):
            save(tmp_path / "x.eqx", {"odd": odd})
    with pytest.raises(ValueError, match=r"tree has the key \(1, 2\), a tuple"):
        save(tmp_path / "x.eqx", {(1, 2): 3.0})
    assert not list(tmp_path.iterdir()), "a file appears whole or not at all"


def test_a_foreign_file_is_named(tmp_path):
    for number, content in enumerate([b"", b"not json\n", b"[1]\n", b'{"a": 1}\n']):
        path = tmp_path / f"{number}.eqx"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{number}.eqx was not written by"):
            load(path)


@pytest.mark.parametrize(
    "tree",
    ["5", "{}", '{"tuple": 5}', '{"array": [[2], "nodtype"], "kind": "jax"}'],
)
def test_a_first_line_that_describes_nothing_is_named(tmp_path, tree):
    path = tmp_path / "odd.eqx"
    path.write_text(f'{{"format": 1, "tree": {tree}}}\n')
    with pytest.raises(ValueError, match=r"odd.eqx has a first line that describes no"):
        load(path)


def test_a_file_cut_short_is_named(tmp_path):
    path = tmp_path / "cut.eqx"
    save(path, system())
    whole = path.read_bytes()
    for size in (whole.index(b"\n"), whole.index(b"\n") + 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.eqx is not whole"):
            load(path)


def test_double_precision_is_not_cast_to_single(tmp_path):
    save(tmp_path / "x.eqx", jnp.ones(2))
    with jax.enable_x64(False), pytest.raises(ValueError, match="holds float64"):
        load(tmp_path / "x.eqx")


def test_a_file_of_another_version_is_named(tmp_path):
    save(tmp_path / "x.eqx", system())
    head, _, rest = (tmp_path / "x.eqx").read_bytes().partition(b"\n")
    newer = head.replace(b'"format": 1', b'"format": 2')
    (tmp_path / "newer.eqx").write_bytes(newer + b"\n" + rest)
    with pytest.raises(ValueError, match="has format 2, this diffsim reads 1"):
        load(tmp_path / "newer.eqx")
    changed = head.replace(b'"softening"', b'"hardening"')
    (tmp_path / "changed.eqx").write_bytes(changed + b"\n" + rest)
    with pytest.raises(ValueError, match=r"Gravity has changed since .*hardening"):
        load(tmp_path / "changed.eqx")


def test_only_modules_are_made(tmp_path):
    save(tmp_path / "x.eqx", nbody.Gravity())
    head, _, rest = (tmp_path / "x.eqx").read_bytes().partition(b"\n")
    name = f"{nbody.Gravity.__module__}:Gravity".encode()
    (tmp_path / "evil.eqx").write_bytes(
        head.replace(name, b"subprocess:Popen") + b"\n" + rest
    )
    with pytest.raises(ValueError, match=r"subprocess:Popen is not an equinox.Module"):
        load(tmp_path / "evil.eqx")


def test_a_class_that_is_gone_is_a_sentence(tmp_path):
    save(tmp_path / "x.eqx", nbody.Gravity())
    content = (tmp_path / "x.eqx").read_bytes()
    for old, new in (("Gravity", "Gravitas"), ("diffsim.nbody", "diffsim.nobody")):
        gone = content.replace(old.encode(), new.encode(), 1)
        (tmp_path / "gone.eqx").write_bytes(gone)
        with pytest.raises(ValueError, match=new):
            load(tmp_path / "gone.eqx")
