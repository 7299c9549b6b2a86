"""Kepler steps inside integrators: the map of `kepler_step`, with its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim.nbody._kepler._kepler_drift import kepler_drift


#: Circle, ellipses, a nearly radial one, the parabola, a hyperbola.
ECCENTRICITIES = np.array([0.0, 0.3, 0.9, 0.999, 1.0, 1.5])


def states(seed=0):
    """One state of each eccentricity about GM = 1, turned at random.

    Behind them singular ones: a circle and a parabola at pericenter in a plane, a fall.
    """
    random = np.random.default_rng(seed)
    e = ECCENTRICITIES
    q = np.where(e < 1, 1 - e, 1.0)
    f = random.uniform(-1.5, 1.5, e.size)
    p = q * (1 + e)
    r, speed = p / (1 + e * np.cos(f)), p**-0.5
    x = np.stack([r * np.cos(f), r * np.sin(f), 0 * f])
    v = speed * np.stack([-np.sin(f), e + np.cos(f), 0 * f])
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    x = np.append(turn @ x, 4 * np.eye(3)[:, [0, 0, 0]], 1)
    v = np.append(turn @ v, np.eye(3)[:, [1, 1, 1]] * [0.5, 0.5**0.5, 0], 1)
    return jnp.asarray(x), jnp.asarray(v)


@jax.jit
def drifted(x, v, dt, gm):
    dx, dv = kepler_drift(x, v, dt, gm)
    return jnp.concatenate([x + dx, v + dv])


@jax.jit
def stepped(x, v, dt, gm):
    return jnp.concatenate(nbody.kepler_step(x.T, v.T, dt, gm), -1).T


@pytest.mark.parametrize("dt", [1e-6, 1e-3, -0.02, 0.3, -1.7, 3.1])
def test_drift_agrees_with_kepler_step_on_every_conic(dt):
    x, v = states()
    gm = jnp.ones(x.shape[1])
    exact = stepped(x, v, dt, gm)
    found = drifted(x, v, dt, gm)
    # roundings of 1e-16, spread by pericenters at 1e-3 as 1/(1 − e)^1.5 of velocities
    scale = np.maximum(np.max(np.abs(exact), 0), 1)
    assert np.max(np.abs(found - exact) / scale) < 2e-12
    # and one by one, where short steps are not held up by long ones
    one = [
        drifted(x[:, i : i + 1], v[:, i : i + 1], dt, gm[i : i + 1])
        for i in range(x.shape[1])
    ]
    assert np.max(np.abs(np.concatenate(one, 1) - exact) / scale) < 2e-12


@pytest.mark.parametrize("slopes", first_plain([False, True]))
def test_drifts_of_a_batch_are_those_of_each_system_and_take_one_branch(slopes):
    x, v = states()
    gm = jnp.ones(x.shape[1])

    def total(dt, x):
        return jnp.sum(jnp.sin(drifted(x, v, dt, gm)))

    def both(dt, x):
        return drifted(x, v, dt, gm), slopes and jax.grad(total, (0, 1))(dt, x)

    # A batch of short steps, and one of which a system takes a long one.
    many, alone = jax.jit(jax.vmap(jax.vmap(both, (None, 0)), (0, None))), jax.jit(both)
    systems = jnp.stack([x, 1.01 * x])
    for steps in (jnp.array([1e-6, 2e-6]), jnp.array([1e-6, 1.7])):
        found = many(steps, systems)
        for i, j in np.ndindex(2, 2):
            exact = alone(steps[i], systems[j])
            pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
            for a, b in pairs:
                scale = np.maximum(np.max(np.abs(b), 0), 1)
                np.testing.assert_allclose(a[i, j] / scale, b / scale, atol=2e-11)
    program = jax.jit(jax.vmap(drifted, (0, None, None, None))).lower(
        systems, v, 0.1, gm
    )
    assert "stablehlo.case" in program.as_text()


def test_drift_without_attraction_is_a_straight_line():
    x, v = states()
    found = drifted(x, v, 0.1, jnp.zeros(x.shape[1]))
    np.testing.assert_allclose(found[:3], x + 0.1 * v, rtol=0, atol=3e-16)
    np.testing.assert_array_equal(found[3:], v)


def weighted(step):
    """A nonlinear function of all outputs and all inputs."""

    def total(given):
        return jnp.sum(jnp.sin(step(*given)) * jnp.arange(1, 7)[:, None])

    return total


@pytest.fixture(scope="module")
def derivatives():
    """Gradients and Hessians along one direction, of both."""

    @jax.jit
    def of(given, move):
        slopes = (jax.grad(weighted(step)) for step in (drifted, stepped))
        return [jax.jvp(slope, (given,), (move,)) for slope in slopes]

    return of


@pytest.mark.parametrize("dt", [0.002, 1.3])
def test_gradient_and_hessian_agree_with_kepler_step(dt, derivatives):
    x, v = states(1)
    gm = jnp.append(jnp.linspace(0.9, 1.1, x.shape[1] - 3), jnp.ones(3))
    given = (x, v, jnp.asarray(dt), gm)
    move = jax.tree.map(lambda a: np.cos(7 * np.arange(a.size).reshape(a.shape)), given)
    found, exact = derivatives(given, move)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        # pericenters at 1e-3 have second derivatives of 1e6 and more
        scale = np.max(np.abs(b), axis=0) + 1
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=1e-9)
