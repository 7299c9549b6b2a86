"""A custom derivative holds under every transformation.

The function is a root by bisection, whose code has derivative zero, so that every row
fails if JAX looks inside; the expected values are those of the closed form.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim._jaxpr._primitives import custom_derivative, one_or_many
from diffsim._jaxpr._tracing import closure_convert


def by_bisection(a):
    """The y with y³ + y = a, by halving [0, 3]."""

    def halved(_, ends):
        low, high = ends
        middle = (low + high) / 2
        above = middle**3 + middle > a
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return [sum(jax.lax.fori_loop(0, 60, halved, (0 * a, 0 * a + 3))) / 2]


def implicit(outputs, inputs, tangents):
    (y,), (da,) = outputs, tangents
    return [None if da is None else da / (3 * y**2 + 1)]


def root(a):
    return custom_derivative(by_bisection, implicit, a)[0]


def cardano(a):
    """The same root in closed form."""
    s = jnp.sqrt(a**2 / 4 + 1 / 27)
    return jnp.cbrt(a / 2 + s) + jnp.cbrt(a / 2 - s)


def scanned(solve):
    def step(carry, _):
        y = solve(carry)
        return 0.9 * carry + 0.1 * y, y

    return lambda a: jnp.sum(jax.lax.scan(step, a, None, length=3)[1] ** 2)


def branched(solve):
    return lambda a: jax.lax.cond(a > 0, solve, lambda x: -x, a)


def remade(solve):
    return jax.checkpoint(lambda a: jnp.sin(solve(a)))


PLACES = {
    "plain": lambda solve: lambda a: jnp.sin(solve(a)),
    "in a scan": scanned,
    "in a branch": branched,
    "under checkpoint": remade,
    "of a root": lambda solve: lambda a: solve(a + solve(a)),
}
MODES = {
    "value": lambda f: f,
    "jacfwd": jax.jacfwd,
    "jacrev": jax.jacrev,
    "linearize": lambda f: lambda a: jax.linearize(f, a)[1](1.0),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "third": lambda f: jax.jacfwd(jax.jacrev(jax.jacfwd(f))),
}


#: A scan is where a suggestion fails; elsewhere a few modes are enough.
CASES = [
    ("in a scan", "forward over reverse"),
    ("in a scan", "third"),
    ("plain", "jacrev"),
    ("in a branch", "jacfwd"),
    ("under checkpoint", "jacrev"),
    ("of a root", "forward over reverse"),
]
PLAIN = len(CASES)
CASES += [("in a scan", mode) for mode in MODES if ("in a scan", mode) not in CASES]
CASES += [
    (place, mode)
    for place in PLACES
    for mode in ("jacfwd", "jacrev", "forward over reverse")
    if place != "in a scan" and (place, mode) not in CASES
]


@pytest.mark.parametrize(("place", "mode"), first_plain(CASES, PLAIN))
def test_custom_derivative_holds_in_every_transformation(place, mode):
    @jax.jit
    def both(a):
        return [MODES[mode](PLACES[place](solve))(a) for solve in (root, cardano)]

    np.testing.assert_allclose(*both(1.3), rtol=1e-11)
    np.testing.assert_allclose(*jax.vmap(both)(jnp.array([0.7, 1.3, 2.1])), rtol=1e-11)


def test_derivative_through_vmap_is_that_of_the_closed_form():
    at = jnp.array([0.7, 1.3, 2.1])

    def total(solve):
        return lambda a: jnp.sum(jax.vmap(solve)(a) ** 2)

    for mode in (jax.grad, jax.hessian):
        np.testing.assert_allclose(
            mode(total(root))(at), jax.jit(mode(total(cardano)))(at), rtol=1e-11
        )


def test_batches_run_the_code_that_is_meant_for_them():
    """Told apart by a thousandth; derivatives are those of the code of one."""

    def one(x, y):
        return x * x * y

    def many(x, y):
        return 1.001 * one(x, y)

    def either(x, y):
        return one_or_many(one, many, jnp.asarray(x), jnp.asarray(y))

    several = jnp.array([0.7, 1.3])
    for run in (either, jax.jit(either)):
        np.testing.assert_allclose(run(3.0, 2.0), 18.0, rtol=1e-15)
        batch = jax.vmap(run, (0, None))(several, 2.0)
        np.testing.assert_allclose(batch, 1.001 * 2 * several**2, rtol=1e-15)
        np.testing.assert_allclose(jax.grad(run)(3.0, 2.0), 12.0, rtol=1e-15)
        np.testing.assert_allclose(jax.hessian(run)(3.0, 2.0), 4.0, rtol=1e-15)
        slopes = jax.vmap(jax.grad(run), (0, None))(several, 2.0)
        np.testing.assert_allclose(slopes, 4 * several, rtol=1e-15)


def test_gradient_through_shard_map_is_that_of_the_whole_batch():
    mesh = jax.make_mesh((1,), ("run",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("run")
    at = jnp.array([0.7, 1.3])

    def total(solve, wrap):
        return lambda a: jnp.sum(wrap(jax.vmap(solve))(a) ** 2)

    def shard(f):
        return jax.shard_map(
            f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )

    found = jax.jit(jax.grad(total(root, shard)))(at)
    expected = jax.grad(total(cardano, lambda f: f))(at)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_integer_outputs_have_zero_derivative():
    def several(a):
        return [*by_bisection(a), jnp.asarray(60)]

    def rule(outputs, inputs, tangents):
        return [*implicit(outputs[:1], inputs, tangents), None]

    def value(a):
        y, count = custom_derivative(several, rule, a)
        return y * count

    np.testing.assert_allclose(
        jax.grad(value)(1.3), 60 * jax.grad(cardano)(1.3), rtol=1e-11
    )


def test_closure_conversion_hoists_all_closed_over_arrays():
    scale, counts = jnp.array(2.0), jnp.array([1, 2])

    def function(x):
        return {"y": scale * x * counts}

    new, consts = closure_convert(function, jnp.array(3.0))
    assert {str(c.dtype) for c in consts} == {"float64", "int64"}
    moved = [2 * c for c in consts]
    np.testing.assert_array_equal(new(moved, 3.0)["y"], 4 * function(3.0)["y"])


def test_constant_outputs_of_traced_functions_are_arrays():
    new, _ = closure_convert(lambda x: (2 * x, 1.5), 1.0)
    doubled, constant = new([], jnp.array(3.0))
    assert isinstance(constant, jax.Array)
    assert (doubled, constant) == (6.0, 1.5)
