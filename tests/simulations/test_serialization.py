"""Saved pytrees are loaded bit for bit, and damaged files are detected."""

import enum
import errno
import hashlib
import importlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import types
from collections import OrderedDict
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, nbody, pde
from diffsim.simulations import Method, load, save, simulate

# The names alone, also of classes of which no object can be made in a line.
from diffsim.simulations._serialization._class_names import public_name


class Orbit(NamedTuple):
    """What a user's state may be."""

    period: Any
    points: Any


class Drag(eqx.Module):
    """What a user's force may be."""

    strength: Any

    def __call__(self, t, state):
        return -self.strength * state.velocities


def shift(x):
    return x + 1


doubled = jax.jit(lambda x: 2 * x)


class Level(enum.IntEnum):
    LOW = 1


NETWORK = (eqx.nn.MLP, eqx.nn.Linear, jax.nn.relu)


def system():
    bodies = nbody.Bodies(
        [1.0, 1e-3],
        [[0.0, 0, 0], [1, 0, 0]],
        [[0.0, -1e-3, 0], [0, 1, 0]],
        names=["Sun", "Jupiter"],
    )
    forces = nbody.Gravity(softening=0.01), nbody.PostNewtonian(1e4, primary=0)
    test_particles = nbody.TestParticles(np.ones((3, 3)), np.zeros((3, 3)))
    return nbody.NBody(bodies, forces, test_particles=test_particles, t0=0.25)


def spelled(x):
    """`x` with nothing left out: types, dtypes, bits, weak types, order of keys."""
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return "key", jax.random.key_impl(x), spelled(jax.random.key_data(x))
    if isinstance(x, jax.Array):
        return "jax", x.weak_type, spelled(np.asarray(x))
    if isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__, x.dtype.name, x.dtype.str, x.shape, x.tobytes()
    if isinstance(x, float):
        return type(x), np.float64(x).tobytes()
    if isinstance(x, complex):
        return type(x), np.complex128(x).tobytes()
    if isinstance(x, dict):
        return dict, [(spelled(k), spelled(v)) for k, v in x.items()]
    if isinstance(x, (tuple, list)):
        return type(x), [spelled(v) for v in x]
    if isinstance(x, types.MethodType):
        return x.__func__, spelled(x.__self__)
    if isinstance(x, eqx.Module):
        return type(x), [(k, spelled(v)) for k, v in sorted(vars(x).items())]
    return type(x), x


def same(a, b):
    assert spelled(a) == spelled(b)
    assert jax.tree.structure(a) == jax.tree.structure(b)


def forged(content, change=lambda line: line):
    """The file with another first line, and the digest that belongs to it."""
    line, _, rest = content[:-64].partition(b"\n")
    content = change(line) + b"\n" + rest
    return content + hashlib.blake2b(content).digest()


def header(path):
    return json.loads(path.read_bytes().partition(b"\n")[0])


def test_loaded_simulation_runs_the_same(tmp_path):
    before, method = system(), Method(diffrax.Heun(), 0.125)
    save(tmp_path / "system.eqx", before)
    after = load(tmp_path / "system.eqx")
    same(after, before)
    assert after.bodies.names == ("Sun", "Jupiter") and after.t0 == 0.25
    same(simulate(after, 1.0, method).states, simulate(before, 1.0, method).states)


def test_loaded_trajectory_can_be_continued(tmp_path):
    method = Method(diffrax.Heun(), 0.125)
    before = simulate(system(), [0.5, 1.0], method)
    save(str(tmp_path / "run.eqx"), before)
    after = load(str(tmp_path / "run.eqx"))
    same(after, before)
    assert after.result == ds.RESULTS.successful
    rest = [simulate(system(), 2.0, method, start=x.final) for x in (before, after)]
    same(*(x.states for x in rest))


@pytest.mark.parametrize(
    ("tree", "classes"),
    [
        (Method(integrators.Yoshida4(), 0.1, max_steps=7), ()),
        (Method(diffrax.Heun(), 0.1), [diffrax.Heun]),
        ({"function": jnp.sin, "norm": jnp.linalg.norm, "sum": jnp.add}, ()),
        ([jnp.float32, ds.simulate, nbody.Gravity.acceleration], ()),
        # MLP's own final activation is a lambda, which has no name.
        (
            eqx.nn.MLP(2, 1, 4, 1, final_activation=jnp.tanh, key=jax.random.key(0)),
            NETWORK,
        ),
        ([Orbit(1.5, jnp.ones(2)), Orbit(Orbit(None, 1), ())], Orbit),
        ((Drag(0.5), shift, Drag(jnp.ones(2)).__call__), (Drag, shift)),
        ([ds.RESULTS.no_root, ds.RESULTS.successful], ()),
    ],
    ids=[
        "method",
        "solver of Diffrax",
        "functions",
        "functions of ours",
        "network",
        "named tuples",
        "modules of users",
        "outcomes",
    ],
)
def test_modules_round_trip(tmp_path, tree, classes):
    save(tmp_path / "tree.eqx", tree)
    found = load(tmp_path / "tree.eqx", classes=classes)
    assert spelled(found) == spelled(tree)  # methods are no leaves that are equal


@pytest.mark.parametrize(
    "value",
    [
        *(0.0, -0.0, 5e-324, 0.1, np.pi, 1e300, np.inf, -np.inf, np.nan, -np.nan),
        *(True, False, None, "", "σ\n\ud800 ", 0, -1, 2**53 + 1, 2**63 - 1, 2**63),
        *(2**64, -(2**64), 10**5000, 1j, complex(-0.0, np.nan), complex(np.inf, -0.0)),
        *((), [], {}, ((), [{}]), {"a": {}}, {1: 2.0, True + 1: 3}, {True: 1, 2.5: 2}),
        *({"b": 1, "a": 2}, {-0.0: 1}, {2**70: 1}, [1, True, 1.0]),
        *(np.float64(0.5), np.float32(-0.0), np.int8(-3), np.bool_(True)),
        *(np.complex64(1j), np.uint64(2**64 - 1), np.datetime64("2026-01-02", "us")),
        *(np.arange(3), np.float64(2) * np.ones(()), np.zeros((2, 0, 3)), np.ones(0)),
        *(np.ones(2, ">f8"), np.arange(6.0).reshape(2, 3).T, np.array(["a", "bc\0d"])),
        *(np.array([b"x", b""]), np.timedelta64(3, "s")),
        np.array([0x7FF0000000000001, 0xFFF8000000000000], np.uint64).view(float),
    ],
    ids=lambda x: type(x).__name__,
)
def test_numbers_and_containers_round_trip_with_their_types(tmp_path, value):
    save(tmp_path / "x.eqx", value)
    same(load(tmp_path / "x.eqx"), value)


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"),
        *("int32", "uint32", "int64", "uint64", "float4_e2m1fn", "float8_e4m3fn"),
        *("float8_e5m2", "float8_e8m0fnu", "bfloat16", "float16", "float32", "float64"),
        *("complex64", "complex128"),
    ],
)
def test_arrays_of_every_dtype_round_trip(tmp_path, dtype):
    if not hasattr(jnp, dtype):
        pytest.skip("this JAX does not have it")
    numbers = np.asarray([0, 1, 1, 0], np.dtype(dtype)).reshape(2, 2)
    scalar = numbers[0, 1]
    tree = [numbers, jnp.asarray(numbers), jnp.asarray(scalar), scalar, numbers[:0]]
    save(tmp_path / "x.eqx", tree)
    same(load(tmp_path / "x.eqx"), tree)


def test_weakly_typed_arrays_round_trip(tmp_path):
    """Else float32 times what was a Python number would become float64."""
    weak = [jnp.asarray(x) for x in (1, -0.0, 2j)]
    tree = [*weak, jnp.broadcast_to(weak[1], (2, 1)) * 3]
    assert all(x.weak_type for x in tree)
    save(tmp_path / "x.eqx", tree)
    same(load(tmp_path / "x.eqx"), tree)


def test_random_keys_round_trip(tmp_path):
    keys = [
        jax.random.key(0),
        jax.random.split(jax.random.key(1, impl="rbg"), (2, 3)),
        jax.random.PRNGKey(2),
    ]
    save(tmp_path / "x.eqx", keys)
    found = load(tmp_path / "x.eqx")
    same(found, keys)
    assert jax.random.normal(found[0]) == jax.random.normal(keys[0])


def random_tree(rng, depth=4):
    """Containers, modules and numbers of every kind, about ten of them."""
    kind = rng.integers(14 if depth else 8)
    if kind < 3:
        shape = tuple(rng.integers(0, 4, rng.integers(0, 3)))
        types = ["f8", "f4", "i4", "u8", "c16", "?", ">i2", "bfloat16", "int4"]
        array = rng.integers(0, 2, shape).astype(rng.choice(types))
        return [array, array[()], jnp.asarray(array.real.astype("f4"))][kind]
    if kind < 8:
        bits = rng.bytes(8)
        number = np.frombuffer(bits, float)[0].item()
        whole = int.from_bytes(bits, "big") << int(rng.integers(9))
        return [number, -whole, None, complex(number, -0.0), bits.hex()][kind - 3]
    inside = [random_tree(rng, depth - 1) for _ in range(rng.integers(0, 4))]
    if kind < 10:
        return (tuple, list)[kind - 8](inside)
    if kind < 12:
        keys = [[True, 2.5, 7, -0.0], ["a.b", "", "σ", "a"]][kind - 10]
        return {keys[i]: x for i, x in zip(rng.permutation(4), inside, strict=False)}
    return (Drag(inside), Orbit(inside, None))[kind - 12]


@pytest.mark.parametrize("seed", range(40))
def test_random_pytrees_round_trip(tmp_path, seed):
    tree = random_tree(np.random.default_rng(seed))
    save(tmp_path / "x.eqx", [tree])
    found = load(tmp_path / "x.eqx", classes=(Drag, Orbit))
    same(found, [tree])


def test_bound_methods_of_modules_round_trip(tmp_path):
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


def test_unserializable_objects_raise_value_error_with_their_path(tmp_path):
    force = [nbody.Gravity(), lambda t, state: 0 * state.positions]
    tree = nbody.NBody(system().bodies, force)
    with pytest.raises(ValueError, match=r"tree.forces\[1\] is .*<lambda>.*no name"):
        save(tmp_path / "x.eqx", tree)
    for odd in (object(), OrderedDict(a=1.0), Level.LOW, np.dtype(float), {1}):
        with pytest.raises(ValueError, match=r"tree\['odd'\] is a .*cannot describe"):
            save(tmp_path / "x.eqx", {"odd": odd})
    for odd in ((1, 2), None, 1j, np.float64(1), Level.LOW):
        kind = type(odd).__name__
        with pytest.raises(ValueError, match=f"tree has the key .*, a {kind}; save"):
            save(tmp_path / "x.eqx", {odd: 3.0})

    def shift(x):  # not the one that the name leads to
        return x

    shift.__qualname__ = "shift"
    with pytest.raises(ValueError, match=r"tree is .*:shift, and that name stands"):
        save(tmp_path / "x.eqx", shift)
    with pytest.raises(ValueError, match="tree is <lambda>, which has no name"):
        save(tmp_path / "x.eqx", doubled)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match=r"nested too deeply .* or holds itself"):
        save(tmp_path / "x.eqx", endless)
    assert not list(tmp_path.iterdir()), "a file appears whole or not at all"


@pytest.mark.parametrize(
    "odd",
    [
        np.array([1, None]),
        np.array([2**64]),
        np.zeros(2, [("a", float), ("b", int)]),
        np.zeros(2, [("a", float)])[0],
        np.str_("text\0"),
    ],
    ids=["objects", "large integers", "records", "record", "text"],
)
def test_arrays_of_unsupported_dtype_are_not_written(tmp_path, odd):
    with pytest.raises(ValueError, match=r"tree\[1\] is an array of dtype .*cannot wr"):
        save(tmp_path / "x.eqx", [1.0, odd])
    assert not list(tmp_path.iterdir())


def test_masked_and_traced_arrays_are_not_written(tmp_path):
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(ValueError, match="tree is a MaskedArray, which save cannot"):
        save(tmp_path / "x.eqx", masked)

    def traced(x):
        save(tmp_path / "x.eqx", {"x": x})
        return x

    with pytest.raises(ValueError, match=r"tree\['x'\] is a traced array.*outside"):
        jax.jit(traced)(1.0)


def kinds_of_trees():
    """Little and much of a first line, few and many arrays, no arrays at all."""
    run = simulate(system(), [0.5, 1.0], Method(diffrax.Heun(), 0.125))
    numbers = {"a": np.arange(100.0), "b": [1.5, True, None, "text"], "c": np.bool_(1)}
    return [run, system(), numbers, (), np.zeros(1000, np.uint8), jax.random.key(3)]


def damaged(content, rng):
    """One kind of damage: flipped bits, bytes written over, a piece lost or added."""
    out, kind = bytearray(content), rng.integers(5)
    where = int(rng.integers(len(out)))
    if kind == 0:
        for i in rng.integers(len(out), size=rng.integers(1, 4)):
            out[i] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        new = rng.bytes(int(rng.integers(1, 9)))
        out[where : where + len(new)] = new
    elif kind == 2:
        del out[where:]
    elif kind == 3:
        out += rng.bytes(int(rng.integers(1, 100)))
    else:
        del out[where : where + int(rng.integers(1, 9))]
    return bytes(out)


def loaded_or_refused(path):
    try:
        return load(path), None
    except ValueError as error:
        return None, str(error)


def check_damaged_files(folder, count):
    rng, path = np.random.default_rng(23), folder / "x.eqx"
    trees, contents = kinds_of_trees(), []
    for tree in trees:
        save(path, tree)
        contents.append(path.read_bytes())
    for i in range(count):
        tree = trees[i % len(trees)]
        path.write_bytes(damaged(contents[i % len(trees)], rng))
        found, error = loaded_or_refused(path)
        if error is None:  # what was written over was the same
            same(found, tree)
        else:
            assert error.startswith(str(path)) and "\n" not in error


def test_damaged_files_are_refused(tmp_path):
    check_damaged_files(tmp_path, 60)


@pytest.mark.slow
def test_a_thousand_damaged_files_are_refused(tmp_path):
    check_damaged_files(tmp_path, 1000)


def test_damaged_file_is_detected_before_it_is_parsed(tmp_path, monkeypatch):
    path = tmp_path / "x.eqx"
    save(path, system())
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    def parsed(*args, **kwargs):
        raise AssertionError("read before the digest was")

    monkeypatch.setattr(json, "loads", parsed)
    with pytest.raises(ValueError, match=r"x\.eqx is damaged"):
        load(path)


def test_foreign_file_raises_value_error(tmp_path):
    contents = [b"", b"not json\n", b"[1]\n", b'{"a": 1}\n', b'{"format": two,}\n']
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.eqx"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{number}.eqx was not written by"):
            load(path)


@pytest.mark.parametrize(
    "tree",
    ["5", "{}", '{"tuple": 5}', '{"tuple": [5]}', '{"array": [0, "jax"]}', '{"a": 1}']
    + ['{"list": [' * 5000 + "]}" * 5000, '{"module": [0, {}]}', '{"function": 0}']
    + ['{"float": "12"}', '{"int": 3}', '{"complex": 1}', '{"value": 1, "list": []}'],
    ids=lambda x: f"{x:.20}",
)
def test_invalid_header_raises_value_error(tmp_path, tree):
    path = tmp_path / "odd.eqx"
    line = f'{{"format": 2, "arrays": [], "names": [], "tree": {tree}}}\n'.encode()
    path.write_bytes(forged(line + bytes(64)))
    with pytest.raises(ValueError, match=r"odd.eqx (describes no tree|cannot be load)"):
        load(path)


@pytest.mark.parametrize(
    "kind", [["nodtype", [2]], ["O", [1]], ["<f8", [-1]], ["<f8", [3]], ["<f8", [2e9]]]
)
def test_header_with_missing_arrays_raises_value_error(tmp_path, kind):
    path = tmp_path / "odd.eqx"
    save(path, np.zeros(2))

    def changed(line):
        found = json.loads(line)
        return json.dumps(found | {"arrays": [kind]}).encode()

    path.write_bytes(forged(path.read_bytes(), changed))
    with pytest.raises(ValueError, match=r"odd.eqx (describes no tree|cannot be load)"):
        load(path)


def test_truncated_or_extended_file_raises_value_error(tmp_path):
    path = tmp_path / "cut.eqx"
    save(path, system())
    whole = path.read_bytes()
    for size in (whole.index(b"\n"), whole.index(b"\n") + 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.eqx is damaged"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match=r"cut\.eqx is damaged"):
        load(path)


def test_double_precision_is_not_cast_to_single(tmp_path):
    save(tmp_path / "x.eqx", jnp.ones(2))
    with jax.enable_x64(False), pytest.raises(ValueError, match="holds float64"):
        load(tmp_path / "x.eqx")


@pytest.mark.parametrize("version", [1, 3])
def test_file_of_another_format_version_raises_value_error(tmp_path, version):
    save(tmp_path / "x.eqx", system())
    new = f'"format": {version}'.encode()
    content = forged(
        (tmp_path / "x.eqx").read_bytes(), lambda x: x.replace(b'"format": 2', new)
    )
    (tmp_path / "other.eqx").write_bytes(content)
    with pytest.raises(ValueError, match=f"has format {version}, this diffsim reads 2"):
        load(tmp_path / "other.eqx")


def test_class_with_changed_fields_raises_value_error(tmp_path):
    save(tmp_path / "x.eqx", system())
    content = forged(
        (tmp_path / "x.eqx").read_bytes(),
        lambda x: x.replace(b'"softening"', b'"hardening"'),
    )
    (tmp_path / "changed.eqx").write_bytes(content)
    with pytest.raises(ValueError, match=r"Gravity has changed since .*hardening"):
        load(tmp_path / "changed.eqx")


def test_results_are_saved_by_name_and_not_by_number(tmp_path):
    """Numbers shift whenever a release adds an outcome."""
    path = tmp_path / "x.eqx"
    save(path, ds.RESULTS.no_root)
    content = path.read_bytes()

    def older(line):
        found = json.loads(line)
        items = found["tree"]["enumeration"][1]
        here, last = items.index("no_root"), items.index("no_linear_solution")
        items[here], items[last] = items[last], items[here]
        return json.dumps(found).encode()

    path.write_bytes(forged(content, older))
    assert load(path) == ds.RESULTS.no_linear_solution
    path.write_bytes(forged(content, lambda x: x.replace(b'"no_root"', b'"no_luck"')))
    with pytest.raises(ValueError, match="outcome no_luck, not known here"):
        load(path)


def test_files_hold_public_names_only(tmp_path):
    grid = pde.Grid(8, 0.0, 1.0)
    trees = [
        simulate(system(), 0.5, Method(diffrax.Heun(), 0.125)),
        pde.Evolution(pde.Diffusion(0.1), initial=jnp.ones(8), grid=grid),
        system(),
        ds.Free(transform="log"),
    ]
    for tree in trees:
        save(tmp_path / "x.eqx", tree)
        names = [name for _, name in header(tmp_path / "x.eqx")["names"]]
        assert names and not [n for n in names if "._" in n or n.startswith("_")]
        same(load(tmp_path / "x.eqx"), tree)


def test_files_load_after_private_modules_are_moved(tmp_path, monkeypatch):
    tree = system()
    save(tmp_path / "x.eqx", tree)
    assert ["module", "diffsim.nbody:NBody"] in header(tmp_path / "x.eqx")["names"]
    for cls in (nbody.NBody, nbody.Bodies, nbody.Gravity):
        monkeypatch.setattr(cls, "__module__", "diffsim.nbody._moved")
    same(load(tmp_path / "x.eqx"), tree)
    before = (tmp_path / "x.eqx").read_bytes()
    save(tmp_path / "x.eqx", tree)
    assert (tmp_path / "x.eqx").read_bytes() == before


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (ds.Method, "diffsim.simulations:Method"),
        (ds.RESULTS, "diffsim:RESULTS"),
        (
            pde.PositiveParameter,
            "diffsim.pde:PositiveParameter",
        ),  # which a private file at the top defines
        (ds.simulations.failures_as_nan, "diffsim:failures_as_nan"),
        (nbody.Gravity.acceleration, "diffsim.nbody:Gravity.acceleration"),
        (jnp.sin, "jax.numpy:sin"),
        (jnp.linalg.norm, "jax.numpy.linalg:norm"),
        (diffrax.Tsit5, "diffrax:Tsit5"),
        (eqx.nn.MLP, "equinox.nn:MLP"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_public_name_is_that_of_the_exporting_package(thing, name):
    assert public_name(thing, "it") == name


def test_files_load_after_private_classes_are_moved(tmp_path, monkeypatch):
    """Those that are not public are found in whatever file of their package."""
    name = "diffsim.inference._parameters"
    home = importlib.import_module(name)
    turns = home.Turns(jnp.ones(0), jnp.ones(0), ())
    tree = home.Coordinates(jnp.ones(1), turns, (), ())
    save(tmp_path / "x.eqx", tree)
    names = [name for _, name in header(tmp_path / "x.eqx")["names"]]
    assert "diffsim.inference:Coordinates" in names
    moved = type(sys)("diffsim.inference._moved")
    moved.Coordinates = home.Coordinates
    monkeypatch.setattr(home.Coordinates, "__module__", moved.__name__)
    monkeypatch.setitem(sys.modules, moved.__name__, moved)
    monkeypatch.delitem(sys.modules, name)
    same(load(tmp_path / "x.eqx"), tree)


@pytest.mark.parametrize(
    "name",
    [
        *("os:system", "subprocess:Popen", "builtins:eval", "numpy:load", "this:s"),
        *("diffsim.nbody:jax.numpy.sin", "diffsim:importlib.import_module"),
        *(
            "diffsim.nbody._nbody:NBody",
            "diffsim._results:RESULTS",
            "diffsim.nbody:jax",
        ),
        *("diffsim.nbody:NBody.__init__.__globals__", "diffsim.nbody:__builtins__"),
        *("diffsim.nbody:NBody.__class__", "diffsim.nbody:NBody.__init__", "diffsim:"),
        *("diffsim.inference:LevenbergMarquardt.norm", "jax.numpy:linalg.norm"),
        *("jax.numpy:jax", "jax.numpy:ndarray", "jax:jit", "jax.numpy:linalg"),
        *("__main__:__builtins__.eval", "__main__:sys", "__main__:__loader__", ":", ""),
        *("diffsim.nobody:NBody", "diffsim.nbody:Nobody", "diffsim.nbody:", "x"),
        *("diffsim.simulations:os.system", "diffsim.simulations:np", "tests:x"),
    ],
)
@pytest.mark.parametrize("kind", ["module", "function"])
def test_names_outside_the_package_are_not_imported(tmp_path, name, kind):
    path = tmp_path / "x.eqx"
    node = {"module": [0, {}]} if kind == "module" else {"function": 0}
    head = {"format": 2, "arrays": [], "names": [[kind, name]], "tree": node}
    path.write_bytes(forged(json.dumps(head).encode() + b"\n" + bytes(64)))
    with pytest.raises(ValueError, match=r"x\.eqx cannot be loaded: "):
        load(path)
    assert "this" not in sys.modules, "nothing is imported for a file"


def test_names_imported_into_main_are_not_loaded(tmp_path, monkeypatch):
    main = sys.modules["__main__"]
    for name, thing in (("system", os.system), ("Drag", Drag)):
        monkeypatch.setattr(main, name, thing, raising=False)
        path, kind = tmp_path / "x.eqx", "function" if name == "system" else "module"
        head = {"format": 2, "arrays": [], "names": [[kind, f"__main__:{name}"]]}
        path.write_bytes(forged(json.dumps(head).encode() + b"\n" + bytes(64)))
        with pytest.raises(ValueError, match="found only if handed over"):
            load(path)


def test_loading_runs_no_property_and_no_hash_of_a_named_class(tmp_path, monkeypatch):
    class Spring(eqx.Module):
        stiffness: float

        def force(self, x):
            return -self.stiffness * x

        @property
        def period(self):
            pytest.fail("a property ran")

        def __hash__(self):
            pytest.fail("a hash ran")

    Spring.__qualname__, path = "Spring", tmp_path / "x.eqx"
    Spring.__module__ = "__main__"
    monkeypatch.setattr(sys.modules["__main__"], "Spring", Spring, raising=False)
    save(path, Spring(2.0).force)
    assert load(path, classes=Spring)(3.0) == -6.0
    method = path.read_bytes()
    path.write_bytes(forged(method, lambda x: x.replace(b'"force"', b'"period"')))
    with pytest.raises(ValueError, match="Spring has no method period here"):
        load(path, classes=Spring)
    save(path, {"a": Spring(2.0)})
    key, module = b'{"value": "a"}', b'{"module": [0, {"stiffness": {"value": 2.0}}]}'
    content = path.read_bytes()
    assert key in content and module in content
    path.write_bytes(forged(content, lambda x: x.replace(key, module)))
    with pytest.raises(ValueError, match="describes no tree"):
        load(path, classes=Spring)


def test_names_of_the_wrong_kind_raise_value_error(tmp_path):
    path = tmp_path / "x.eqx"
    for kind, name in (
        ("module", "diffsim:simulate"),
        ("module", "diffsim:RESULTS"),
        ("function", "diffsim.nbody:Gravity"),
        ("enumeration", "diffsim.nbody:Gravity"),
    ):
        head = {
            "format": 2,
            "arrays": [],
            "names": [[kind, name]],
            "tree": {"list": []},
        }
        path.write_bytes(forged(json.dumps(head).encode() + b"\n" + bytes(64)))
        with pytest.raises(ValueError, match=f"{name} is not an? "):
            load(path)


def test_user_classes_load_only_by_the_classes_argument(tmp_path):
    path, here = tmp_path / "x.eqx", __name__
    save(path, [Drag(1.0), Orbit(1, 2), shift])
    with pytest.raises(ValueError, match=rf"found only if handed over: .*{here}.Orbit"):
        load(path)
    with pytest.raises(ValueError, match=rf"{here}:shift, and .*=\[{here}.shift\]"):
        load(path, classes=(Drag, Orbit))
    with pytest.raises(ValueError, match=r"classes must hold .* not objects of them"):
        load(path, classes=(Drag(1.0),))
    same(load(path, classes=[Drag, Orbit, shift]), [Drag(1.0), Orbit(1, 2), shift])


def test_classes_argument_cannot_replace_library_classes(tmp_path):
    class Gravity(eqx.Module):
        G: Any
        softening: Any

    Gravity.__qualname__ = "Gravity"
    for module in ("__main__", "elsewhere", "diffsim.nbody"):
        Gravity.__module__ = module
        save(tmp_path / "x.eqx", nbody.Gravity())
        assert type(load(tmp_path / "x.eqx", classes=Gravity)) is nbody.Gravity


_SCRIPT = """
import sys
from typing import NamedTuple
import equinox as eqx
from os import getcwd
import diffsim as ds

class Outer:
    class Inner(eqx.Module):
        x: float

class Pair(NamedTuple):
    a: float

def double(x):
    return 2 * x

if __name__ == "__main__":
    tree = [Outer.Inner(1.0), Pair(2.0), double]
    ds.save("tree.eqx", tree)
    assert ds.load("tree.eqx") == tree
    try:
        ds.save("other.eqx", getcwd)
    except ValueError as error:
        assert "getcwd" in str(error)
"""


def test_classes_of_a_script_load_in_it_and_elsewhere_by_the_classes_argument(
    tmp_path, monkeypatch
):
    (tmp_path / "their_script.py").write_text(_SCRIPT)
    command = [sys.executable, "their_script.py"]
    root = str(pathlib.Path(ds.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": root}
    subprocess.run(command, cwd=tmp_path, env=env, check=True)
    path = tmp_path / "tree.eqx"
    names = [name for _, name in header(path)["names"]]
    assert names == ["__main__:Outer.Inner", "__main__:Pair", "__main__:double"]
    with pytest.raises(ValueError, match="found only if handed over"):
        load(path)
    monkeypatch.syspath_prepend(tmp_path)
    import their_script  # pyright: ignore

    classes = their_script.Outer.Inner, their_script.Pair, their_script.double
    found = load(path, classes=classes)
    assert found == [classes[0](1.0), classes[1](2.0), classes[2]]


def test_removed_class_raises_value_error(tmp_path):
    path = tmp_path / "x.eqx"
    save(path, nbody.Gravity())
    content = path.read_bytes()
    for old, new in (("Gravity", "Gravitas"), ("diffsim.nbody", "diffsim.nobody")):
        gone = forged(
            content, lambda x, a=old, b=new: x.replace(a.encode(), b.encode())
        )
        path.write_bytes(gone)
        with pytest.raises(ValueError, match=new):
            load(path)


def test_save_syncs_file_and_directory_before_it_returns(tmp_path, monkeypatch):
    done, sync, move = [], os.fsync, os.replace

    def synced(number):
        kind = os.fstat(number).st_mode
        done.append("folder" if stat.S_ISDIR(kind) else "file")
        return sync(number)

    def moved(self, target):
        done.append("moved")
        return move(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(pathlib.Path, "replace", moved)
    save(tmp_path / "x.eqx", system())
    assert done == ["file", "moved", "folder"]


def test_save_works_where_directories_cannot_be_synced(tmp_path, monkeypatch):
    sync = os.fsync

    def refused(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(number)

    monkeypatch.setattr(os, "fsync", refused)
    save(tmp_path / "x.eqx", 1.0)
    assert load(tmp_path / "x.eqx") == 1.0


@pytest.mark.parametrize("failing", ["fsync", "write", "replace"])
def test_full_disk_leaves_the_old_file_and_no_temporary_file(
    tmp_path, monkeypatch, failing
):
    path, full = tmp_path / "x.eqx", OSError(errno.ENOSPC, "No space left on device")
    save(path, 1.0)

    def refused(*args):
        raise full

    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", refused)
    elif failing == "replace":
        monkeypatch.setattr(pathlib.Path, "replace", refused)
    else:
        resource = pytest.importorskip("resource")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"No space|File too large"):
            save(path, np.zeros(100_000))
    finally:
        if failing == "write":
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.undo()
    assert load(path) == 1.0
    assert list(tmp_path.iterdir()) == [path]


def test_missing_directory_raises_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "nowhere" / "x.eqx", 1.0)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "x.eqx")


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder"])
def test_path_to_a_directory_or_pipe_raises_value_error(tmp_path, kind):
    path = tmp_path / "x.eqx"
    if kind == "folder":
        path.mkdir()
    else:
        if not hasattr(os, "mkfifo"):
            pytest.skip("there are no pipes in folders here")
        os.mkfifo(path)
    given = path
    if kind == "link to a pipe":
        given = tmp_path / "link.eqx"
        given.symlink_to(path)
    before, names = path.lstat().st_mode, set(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"path must name a file, got .*\.eqx'.*name"):
        save(given, 1.0)
    assert path.lstat().st_mode == before and set(tmp_path.iterdir()) == names


@pytest.mark.parametrize("there", [True, False])
def test_save_through_a_symlink_writes_its_target(tmp_path, there):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target, link = folder / "x.eqx", tmp_path / "link.eqx"
    if there:
        save(target, 1.0)
    link.symlink_to(target)
    save(link, 2.0)
    assert link.is_symlink() and load(target) == 2.0
    assert list(folder.iterdir()) == [target]


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_replaced_file_keeps_its_permissions(tmp_path, monkeypatch, mode):
    path, write, meanwhile = tmp_path / "x.eqx", os.fsync, []
    save(path, 1.0)
    path.chmod(mode)

    def look(number):
        meanwhile.append(stat.S_IMODE(os.fstat(number).st_mode))
        write(number)

    monkeypatch.setattr(os, "fsync", look)
    save(path, 2.0)
    assert stat.S_IMODE(path.stat().st_mode) == mode and load(path) == 2.0
    # the owner, who writes it, aside, nobody may do more before the file is there
    assert not meanwhile[0] & ~mode & 0o077


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind")
def test_new_file_has_default_permissions(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    save(tmp_path / "x.eqx", 1.0)
    assert (tmp_path / "x.eqx").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_foreign_part_files_are_left_alone(tmp_path):
    (tmp_path / "q.part").write_text("mine")
    (tmp_path / "q.eqx.part").write_text("mine")
    for name in ("q", "q.eqx", 240 * "q"):  # names may have 255 bytes
        save(tmp_path / name, 1.0)
    assert (tmp_path / "q.part").read_text() == "mine"
    assert (tmp_path / "q.eqx.part").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 5
