"""`Reversible` has the right gradient or none."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde
from diffsim.simulations import Checkpointed, Reversible, Separable, SplitFlows


SENTENCE = "Reversible: the run, stepped backwards from its end, came to another start"


def absorbed(strength, adjoint):
    """A wave in a layer, by its speed, as in a report of a wrong gradient."""
    line = pde.Grid(100, 0.0, 10.0)
    damping = pde.absorbing_layer(line, 2.0, strength)

    def pulse(x):
        u = jnp.exp(-4 * (x[0] - 5) ** 2)
        return jnp.stack([u, 0 * u])

    def after(c, **options):
        sea = pde.Evolution(pde.Wave(c, damping), pulse, line, pde.Dirichlet())
        method = ds.Method(integrators.Leapfrog(), 0.04, adjoint=adjoint)
        return ds.simulate(sea, 8.0, method, **options).states[0, 60]

    return after


class Particle(ds.AbstractSimulation):
    """x'' = k x − σ x', the damping exact or by a step that is none backwards."""

    k: jax.Array
    sigma: jax.Array | float | None = None
    is_exact: bool = True
    t0: float = 0.0

    def initial_state(self):
        return jnp.array(1.0), jnp.array(0.0)

    def terms(self):
        if self.sigma is None:
            return Separable(lambda t, v, args: v, lambda t, x, args: args.k * x)
        return SplitFlows(self._drift, self._kick)

    def _drift(self, t, y, length, args):
        x, v = y
        return x + length * v, v

    def _kick(self, t, y, length, args):
        x, v = y
        z = -self.sigma * length
        change = jnp.expm1(z) if self.is_exact else z
        return x, v + change * (v - args.k * x / self.sigma)

    def default_method(self):
        return ds.Method(diffrax.Tsit5())

    def observe(self, t, y):
        return jnp.stack(y)


def particle(sigma, is_exact, end, adjoint):
    def after(k, **options):
        run = Particle(k if sigma is None else -k, sigma, is_exact)
        method = ds.Method(integrators.Leapfrog(), 0.01, adjoint=adjoint)
        return ds.simulate(run, end, method, **options).states[0]

    return after


def scattered(end, adjoint):
    """Hénon and Heiles' potential at an energy at which nearly all is chaos."""

    def force(t, q, args):
        x, y = q
        return -jnp.stack([x + 2 * args.k * x * y, y + args.k * (x**2 - y**2)])

    class Star(Particle):
        def initial_state(self):
            return jnp.array([0.0, 0.1]), jnp.array([0.56, 0.1])

        def terms(self):
            return Separable(lambda t, v, args: v, force)

    def after(k, **options):
        method = ds.Method(integrators.Leapfrog(), 0.05, adjoint=adjoint)
        return ds.simulate(Star(k), end, method, **options).states[0, 0]

    return after


LOST = {
    "absorbed": lambda adjoint: absorbed(20.0, adjoint),
    "strong friction": lambda adjoint: particle(8.0, True, 6.0, adjoint),
    "friction that is another one backwards": lambda adjoint: particle(
        0.5, False, 2.0, adjoint
    ),
    "instability": lambda adjoint: particle(None, True, 30.0, adjoint),
    "chaos": lambda adjoint: scattered(500.0, adjoint),
}


def turned(adjoint):
    """x'' = −k x over a whole period of leapfrog: at rest at both ends."""
    step = np.sqrt(2 - 2 * np.cos(2 * np.pi / 100))

    def after(k):
        method = ds.Method(integrators.Leapfrog(), step, adjoint=adjoint)
        state = ds.simulate(Particle(-k), 100 * step, method).states
        return jnp.sum(state)

    return after


KEPT = {
    "at rest at both ends": turned,
    "absorbed": lambda adjoint: absorbed(1.0, adjoint),
    "weak friction": lambda adjoint: particle(0.5, True, 6.0, adjoint),
    "instability": lambda adjoint: particle(None, True, 3.0, adjoint),
    "chaos": lambda adjoint: scattered(20.0, adjoint),
}


@pytest.mark.parametrize("name", KEPT)
def test_gradient_of_a_run_that_comes_back_is_that_of_the_stored_run(name):
    found, stored = (
        jax.jit(jax.grad(KEPT[name](adjoint)))(1.0) for adjoint in (Reversible(), None)
    )
    np.testing.assert_allclose(found, stored, rtol=1e-8)


@pytest.mark.parametrize("name", LOST)
def test_gradient_of_a_run_that_does_not_come_back_is_an_error_or_nan(name):
    after = LOST[name](Reversible())
    told = jax.value_and_grad(lambda k: after(k, throw=False))
    value, gradient = jax.jit(told)(1.0)
    assert jnp.isfinite(value) and jnp.isnan(gradient)
    with pytest.raises(Exception, match=SENTENCE):
        jax.block_until_ready(jax.jit(jax.grad(after))(1.0))


def test_gradient_of_a_run_that_does_not_come_back_ends_no_fit():
    after = particle(8.0, True, 6.0, Reversible())
    with ds.simulations.failures_as_nan():
        assert jnp.isnan(jax.jit(jax.grad(after))(1.0))


def test_member_of_a_batch_that_does_not_come_back_leaves_the_others():
    def at(sigma):
        after = particle(sigma, True, 3.0, Reversible())
        return jax.grad(lambda k: after(k, throw=False))(1.0)

    found = jax.jit(jax.vmap(at))(jnp.array([0.5, 15.0, 1.0]))
    np.testing.assert_array_equal(jnp.isnan(found), [False, True, False])
    stored = jax.grad(particle(0.5, True, 3.0, Checkpointed()))(1.0)
    np.testing.assert_allclose(found[0], stored, rtol=1e-8)
