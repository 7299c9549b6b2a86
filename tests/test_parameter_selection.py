"""Parameters of a pytree: their names, selection and replacement."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._parameter_selection import (
    integers,
    leaf_indices,
    select,
    selected_values,
    with_selected_values,
)


class Planets(eqx.Module):
    masses: jax.Array
    positions: jax.Array
    names: tuple[str, ...] = eqx.field(static=True)


class System(eqx.Module):
    bodies: Planets
    G: float
    steps: int
    t0: float
    label: str = eqx.field(static=True)


def system() -> System:
    masses = jnp.array([1.0, 1e-3])
    positions = jnp.arange(6.0).reshape(2, 3)
    bodies = Planets(masses, positions, ("Sun", "Jupiter"))
    return System(bodies, 2.0, 7, 0.0, "pair")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ("bodies.masses", ["bodies.masses[Sun]", "bodies.masses[Jupiter]"]),
        ("bodies.masses[1]", ["bodies.masses[Jupiter]"]),
        ("bodies.masses[Jupiter]", ["bodies.masses[Jupiter]"]),
        ("bodies.masses[-1]", ["bodies.masses[Jupiter]"]),
        ("bodies.masses[:1]", ["bodies.masses[Sun]"]),
        ("bodies.positions[Jupiter, 0]", ["bodies.positions[Jupiter, 0]"]),
        (
            "bodies.positions[:, 2]",
            ["bodies.positions[Sun, 2]", "bodies.positions[Jupiter, 2]"],
        ),
        ("bodies.positions[Sun]", [f"bodies.positions[Sun, {i}]" for i in range(3)]),
        (("G", "bodies.masses[0]"), ["G", "bodies.masses[Sun]"]),
        (lambda s: (s.G, s.t0), ["G", "t0"]),
    ],
)
def test_selected_paths_expand_to_parameter_names(paths, names):
    assert list(select(system(), paths).names) == names


def moons() -> System:
    """As `system`, with names that a path could stumble over."""
    names = ("Earth, Moon", "a[1]", "x.y", "Earth")
    bodies = Planets(jnp.ones(4), jnp.ones((4, 3)), names)
    return System(bodies, 2.0, 7, 0.0, "moons")


@pytest.mark.parametrize(
    "tree",
    [
        system(),
        moons(),
        {"a.b": 1.0, "c[0]": jnp.ones(2), "d, e": 2.0, "0.weight": jnp.ones((2, 1))},
        {3: 1.0, 4: [2.0]},
        jnp.ones((2, 2)),
        1.0,
    ],
    ids=["names", "odd names", "odd keys", "numbers", "array", "scalar"],
)
def test_every_parameter_name_selects_its_parameter(tree):
    names = select(tree, "*").names
    for name in names:
        assert select(tree, name).names == (name,)
    assert leaf_indices(names, names) == list(range(len(names)))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("bodies.masses['Earth, Moon']", "bodies.masses[Earth, Moon]"),
        ("bodies.positions[Earth, Moon, -1]", "bodies.positions[Earth, Moon, 2]"),
        ("bodies.positions[Earth, 1]", "bodies.positions[Earth, 1]"),
        ("bodies.positions[1, 2]", "bodies.positions[a[1], 2]"),
    ],
)
def test_names_may_contain_commas_and_brackets(path, name):
    assert select(moons(), path).names == (name,)


def test_leaf_indices_of_a_node_are_those_of_all_its_entries():
    names = select(moons(), "bodies").names
    assert leaf_indices(names, "bodies") == list(range(16))
    assert leaf_indices(names, "bodies.masses") == [0, 1, 2, 3]
    assert leaf_indices(names, "bodies.masses[Earth]") == [3]
    assert leaf_indices(names, "bodies.positions[Earth]") == [13, 14, 15]
    assert leaf_indices(names, ["bodies.positions[a[1]]"]) == [7, 8, 9]
    with pytest.raises(
        ValueError, match=r"masses\[3\]' is no parameter; near are .*Ear"
    ):
        leaf_indices(names, "bodies.masses[3]")


@pytest.mark.parametrize("node", ["bodies", "bodies.*", ["bodies"], lambda s: s.bodies])
def test_node_selects_every_float_below_it(node):
    assert len(select(system(), node).names) == 8


def test_wildcard_selects_floats_and_not_integers():
    assert len(select(system(), "*").names) == 10
    assert "t0" not in select(system(), "*", passing=("t0",)).names
    assert select(system(), "t0", passing=("t0",)).names == ("t0",)


def test_integer_leaves_exclude_booleans_and_typed_keys():
    leaves = [1, True, 2.0, "x", jnp.sin, np.arange(2), jnp.array([True]), None]
    assert integers(leaves) == ["[0]", "[5]"]
    assert integers([jax.random.key(0), jax.random.PRNGKey(0)]) == ["[1]"]


def test_arrays_dicts_and_lists_have_paths():
    assert select(jnp.zeros(2), "[1]").names == ("[1]",)
    assert select(jnp.zeros(2), "*").names == ("[0]", "[1]")
    assert select(jnp.zeros(()), "*").names == ("value",)
    tree = {"layers": [{"w": jnp.zeros((2, 2))}, {"w": 1.0}]}
    assert select(tree, "layers[0].w[1, 0]").names == ("layers[0].w[1, 0]",)
    assert select(tree, "layers.*.w").names[-1] == "layers[1].w"


def test_with_selected_values_inverts_selected_values_and_keeps_the_rest():
    before = system()
    chosen = select(before, ["bodies.positions[Jupiter]", "G"])
    np.testing.assert_array_equal(selected_values(before, chosen), [3, 4, 5, 2])
    after = with_selected_values(before, chosen, 10 * selected_values(before, chosen))
    np.testing.assert_array_equal(after.bodies.positions, [[0, 1, 2], [30, 40, 50]])
    assert after.G == 20 and after.steps == 7 and after.t0 == 0.0
    assert after.bodies.names == before.bodies.names


def test_with_selected_values_keeps_the_dtype_of_each_leaf():
    tree = {"a": jnp.zeros(2, jnp.float32), "b": jnp.zeros(2, jnp.float64)}
    chosen = select(tree, "*")
    assert selected_values(tree, chosen).dtype == jnp.float64
    assert with_selected_values(tree, chosen, jnp.ones(4))["a"].dtype == jnp.float32


def test_selection_and_replacement_work_under_jit_vmap_and_grad():
    tree = system()
    chosen = select(tree, ["bodies.masses", "bodies.positions[Sun, 1:]"])

    @jax.jit
    def weight(vector):
        new = with_selected_values(tree, chosen, vector).bodies
        return jnp.sum(new.masses**2) + jnp.sum(jnp.arange(6) * new.positions.ravel())

    batch = jnp.stack([selected_values(tree, chosen), jnp.ones(4)])
    loop = [weight(v) for v in batch]
    np.testing.assert_allclose(jax.vmap(weight)(batch), loop, rtol=1e-15)
    gradient = jax.grad(weight)(batch[0])
    np.testing.assert_allclose(gradient, [2.0, 2e-3, 1, 2], rtol=1e-15)
    np.testing.assert_allclose(jax.jacfwd(weight)(batch[0]), gradient, rtol=1e-15)


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ("bodies.mases", "free='bodies.mases' names nothing.*'bodies.masses'"),
        (
            "bodies.masses[Saturn]",
            r"no entry of 'bodies.masses' with shape \(2,\).*'Sun'",
        ),
        ("bodies.masses[Jupitr]", "near are 'Jupiter'"),
        ("bodies.masses[2]", r"no entry of 'bodies.masses' with shape \(2,\)"),
        ("bodies.masses[0, 0]", "no entry of"),
        ("steps", "'steps' is int, and only floating-point numbers can vary"),
        (lambda s: s.steps, "'steps' is int"),
        ((), "free selects no numbers; the floating-point leaves are 'bodies.masses'"),
        (lambda s: (), "free selects no numbers"),
        (lambda s: s.bodies.masses[0], "write single entries as a path"),
        (lambda s: 2 * s.G, "write single entries as a path"),
        (lambda s: s.label, "it returned str.*write single entries as a path"),
        (lambda s: {}["G"], "as a function must return nodes of the model"),
        ("", "free='' names nothing"),
        ("bodies..masses", "names nothing.*near are 'bodies.masses'"),
        ("bodies.masses[", "names nothing.*near are 'bodies.masses'"),
        ("bodies.positions[1][2]", r"names nothing.*write 'bodies.positions\[1, 2\]'"),
        (3, "free must be a path or several, 'bodies.masses' say, got 3"),
        (["G", lambda s: s.G], "free must be a path or several"),
        (
            ["bodies", "bodies.masses[1]"],
            r"masses\[Jupiter\]' twice, by 'bodies' and by 'bodies.masses\[1\]'",
        ),
    ],
)
def test_invalid_selection_raises_value_error(paths, sentence):
    with pytest.raises(ValueError, match=sentence):
        select(system(), paths)


def test_error_of_a_selection_names_the_argument():
    with pytest.raises(ValueError, match="over='x' names nothing"):
        select({"y": 1.0}, "x", argument="over")
