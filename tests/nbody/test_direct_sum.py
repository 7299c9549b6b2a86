"""The direct sum and its derivatives, against the plain formula."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim._jaxpr._batch_last import batch_last
from diffsim._tuning import BODIES_BY_PAIRS


@jax.jit
def plain(x, gm, softening):
    """Accelerations as one would write them; the first bodies attract."""
    sources = x[:, : gm.size]
    d = sources[:, None, :] - x[:, :, None]
    eye = jnp.eye(x.shape[1], gm.size)
    r2 = jnp.sum(d * d, 0) + softening**2 + eye
    return jnp.sum(gm * d * r2**-1.5, 2)


def ours(x, gm, softening):
    force = nbody.Gravity(softening=softening)
    return force.acceleration(jnp.zeros(()), x, None, gm)


def case(massive, test_particles, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(3, massive + test_particles))
    gm = random.uniform(0.1, 1, massive) / massive
    at = jnp.asarray(x), jnp.asarray(gm), jnp.asarray(0.3)
    along = tuple(jnp.asarray(random.normal(size=a.shape)) for a in at)
    weights = jnp.asarray(random.normal(size=x.shape))
    return at, along, weights


def everything(acceleration, weights, *, nestings=True):
    """The value, and derivatives of a nonlinear function of it in every mode."""

    def loss(at):
        return jnp.sum(weights * jnp.sin(acceleration(*at)))

    def of(at, along):
        def partial(i):
            # One argument moves: nothing is computed for the others.
            def only(one):
                return acceleration(*[one if k == i else a for k, a in enumerate(at)])

            return jax.jvp(only, (at[i],), (along[i],))[1]

        gradient = jax.grad(loss)

        def slope(at):
            return jax.jvp(loss, (at,), (along,))[1]

        def slope_in_reverse(at):
            pairs = zip(jax.tree.leaves(gradient(at)), along, strict=True)
            return sum(jnp.sum(g * d) for g, d in pairs)

        first = {
            "value": acceleration(*at),
            "forward": jax.jvp(acceleration, at, along)[1],
            "forward, one argument": [partial(i) for i in range(3)],
            "reverse": gradient(at),
        }
        second = {
            "forward over reverse": lambda: jax.jvp(gradient, (at,), (along,))[1],
            "reverse over forward": lambda: jax.grad(slope)(at),
            "reverse over reverse": lambda: jax.grad(slope_in_reverse)(at),
            "forward over forward": lambda: jax.jvp(slope, (at,), (along,))[1],
        }
        chosen = list(second)[: 4 if nestings else 2]
        return first | {name: second[name]() for name in chosen}

    return jax.jit(of)


# All pairs at once up to 64 bodies, above in blocks: 70 does not fill the last block,
# 512 is where equal strides are avoided.
@pytest.mark.parametrize(
    ("massive", "test_particles"),
    [
        pytest.param(3, 0, marks=pytest.mark.slow),
        (5, 4),
        pytest.param(70, 9, marks=pytest.mark.slow),
        pytest.param(512, 0, marks=pytest.mark.slow),
    ],
)
def test_direct_sum_and_its_derivatives_match_the_plain_formula(
    massive, test_particles
):
    at, along, weights = case(massive, test_particles)
    small = massive < 64
    found = everything(ours, weights, nestings=small)(at, along)
    expected = everything(plain, weights, nestings=small)(at, along)
    for name in expected:
        pairs = zip(
            jax.tree.leaves(found[name]), jax.tree.leaves(expected[name]), strict=True
        )
        for a, b in pairs:
            # rounding of sums of up to 512 terms
            scale = np.max(np.abs(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-13 * scale, err_msg=name)


def test_derivatives_in_blocks_are_those_along_imaginary_steps():
    at, along, weights = case(70, 9)

    @jax.jit
    def found(at, along, weights):
        value, slope = jax.jvp(ours, at, along)
        return value, slope, jax.vjp(ours, *at)[1](weights)

    value, slope, bars = found(at, along, weights)
    step = 1e-40j
    x, gm, softening = (
        np.asarray(a + step * d) for a, d in zip(at, along, strict=True)
    )
    d = x[:, None, :70] - x[:, :, None]
    r2 = np.sum(d * d, 0) + softening**2
    r2[np.arange(70), np.arange(70)] = 1
    exact = np.sum(gm * d * r2**-1.5, 2)
    # rounding of sums of 70 terms
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=2e-13)
    close(value, exact.real)
    exact = exact.imag / step.imag
    close(slope / np.max(np.abs(exact)), exact / np.max(np.abs(exact)))
    pulled = sum(np.vdot(bar, d) for bar, d in zip(bars, along, strict=True))
    assert pulled == pytest.approx(np.vdot(weights, exact), rel=1e-11)


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize(
    "massive", first_plain([4, 5, *sorted({1, 8} | BODIES_BY_PAIRS - {4, 5})], 2)
)
def test_systems_side_by_side_match_the_plain_formula(massive, order):
    """Where systems lie side by side each pair of few bodies is worked out once."""
    at = [case(massive, 0, seed)[0] for seed in range(3)]
    batch = jax.tree.map(lambda *a: jnp.stack(a), *at)
    expected = [plain(*one) for one in at]
    if order == "first":
        found = jax.jit(jax.vmap(lambda one: ours(*one)))(batch)
    else:
        one = batch_last(lambda one: ours(*one))
        found = jax.jit(one)(jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), batch))
        found = jnp.moveaxis(found, -1, 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-14)
    pull = jnp.einsum("sib,sb->si", found, batch[1], precision="highest")
    np.testing.assert_allclose(pull, 0.0, atol=1e-15)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize(("massive", "test_particles"), [(3, 2), (70, 0)])
def test_batched_systems_equal_single_systems(massive, test_particles):
    cases = [case(massive, test_particles, seed) for seed in range(3)]
    weights = cases[0][2]
    batch = jax.tree.map(lambda *a: jnp.stack(a), *[at for at, _, _ in cases])

    def loss(at):
        return jnp.sum(weights * jnp.sin(ours(*at)))

    one = jax.jit(jax.value_and_grad(loss))
    together = jax.jit(jax.vmap(jax.value_and_grad(loss)))(batch)
    for i, (at, _, _) in enumerate(cases):
        alone = one(at)
        member = jax.tree.map(lambda a, i=i: a[i], together)
        for a, b in zip(jax.tree.leaves(member), jax.tree.leaves(alone), strict=True):
            scale = np.max(np.abs(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * scale)


@pytest.mark.parametrize("massive", [5, 70])
def test_total_gravitational_force_vanishes(massive):
    (x, gm, softening), _, _ = case(massive, 0)
    total = np.asarray(jax.jit(ours)(x, gm, softening)) @ np.asarray(gm)
    np.testing.assert_allclose(total, np.zeros(3), atol=1e-16 * massive)


@pytest.mark.parametrize("massive", first_plain([3, 70]))
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40], ids=["large", "small"])
def test_derivatives_do_not_depend_on_the_unit_of_length(massive, unit):
    # A body's own place among its sources cancels to rounding only: in metres that
    # rounding was larger than all there is.
    (x, gm, _), _, weights = case(massive, 2)
    c = jnp.asarray(1e3)
    v = jnp.asarray(np.random.default_rng(1).normal(size=x.shape))

    def accelerations(x, gm, v, c):
        newton = nbody.Gravity().acceleration(0.0, x, None, gm)
        return newton, nbody.PostNewtonian(c).acceleration(0.0, x, v, gm)

    @jax.jit
    def derivatives(at, along, weights):
        value, forward = jax.jvp(accelerations, at, along)
        return value, forward, jax.vjp(accelerations, *at)[1]((weights, weights))[0]

    time = unit**1.5
    in_units = (unit * x, gm, x.dtype.type(unit / time) * v, c * unit / time)
    along = tuple(jnp.sin(1 + a) for a in (x, gm, v, c))
    scaled = (unit * along[0], along[1], unit / time * along[2], along[3] * unit / time)
    value, forward, reverse = derivatives((x, gm, v, c), along, weights)
    found = derivatives(in_units, scaled, weights)
    for a, b in zip((value, forward), found[:2], strict=True):
        for one, other in zip(a, b, strict=True):
            back = other * unit**2
            np.testing.assert_allclose(back, one, rtol=0, atol=1e-14 * abs(one).max())
    back = found[2] * unit**3
    np.testing.assert_allclose(back, reverse, rtol=0, atol=1e-14 * abs(reverse).max())
