"""A changed constant in a user's function takes effect without recompilation."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import implicit, nbody, pde
from diffsim.inference import Gaussian
from diffsim.simulations import Event


_X = np.linspace(0.0, 1.0, 8)
_DATA = 2 * np.exp(-1.3 * _X)
_TIMES = np.linspace(0.0, 2.0, 5)
_EXPLICIT = ds.Method(diffrax.Heun(), step=0.1)


class Decay(ds.AbstractSimulation):
    """ẏ = −k r y; `factor` k is a float that a user declares."""

    rate: jax.Array
    factor: float = 1.0
    t0: float = 0.0

    def initial_state(self):
        return jnp.array([2.0])

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: -self.factor * self.rate * y)

    def default_method(self):
        return _EXPLICIT


def _rod(source=None, wall=None):
    walls = pde.Dirichlet(0.0 if wall is None else wall)
    return pde.Evolution(pde.Diffusion(0.01, source), jnp.zeros(8), pde.Grid(8), walls)


def source(k):
    rod = _rod(lambda t, x, u: k * jnp.sin(x[0]) * jnp.exp(-t))
    return ds.simulate(rod, 0.1, _EXPLICIT).states


def wall(k):
    return ds.simulate(_rod(wall=lambda t, x: k * jnp.sin(t)), 0.1).states


def steady(k):
    return pde.steady_state(_rod(lambda t, x, u: k * jnp.sin(x[0]) - u))


def predict(k):
    def found(p):
        return k * p["a"] * jnp.exp(-p["b"] * _X)

    start = {"a": 1.0, "b": 1.0}
    return ds.fit(found, start, _DATA, noise=Gaussian(0.1)).values


def predict_by_simulation(k):
    def found(rate):
        return ds.simulate(Decay(rate, k), _TIMES).states[:, 0]

    data = 2 * np.exp(-0.7 * _TIMES)
    return ds.fit(found, jnp.asarray(1.0), data, noise=Gaussian(0.1)).values


def noise(k):
    def line(p):
        return p["a"] + p["b"] * _X

    start = {"a": 1.0, "b": 1.0}
    return ds.fit(line, start, _DATA, noise=lambda p: Gaussian(k * 0.1)).stderr


def condition(k):
    happening = Event(lambda t, y, simulation: y[0] - k)
    run = ds.simulate(Decay(jnp.asarray(1.0)), _TIMES, events=happening)
    return run.events[0].times


def observe(k):
    run = ds.simulate(Decay(jnp.asarray(1.0)), _TIMES, observe=lambda t, y: k * y)
    return run.states


def field(k):
    return ds.simulate(Decay(jnp.asarray(1.0), k), _TIMES).states


def force(k):
    def drag(t, state):
        return -k * state.velocities

    bodies = nbody.Bodies([1.0], [[0.0, 0, 0]], [[0.0, 1, 0]])
    alone = nbody.NBody(bodies, drag, gravity=False)
    return ds.simulate(alone, 1.0, _EXPLICIT).states.positions


def root(k):
    return implicit.root(lambda y, a: y**3 - k * a, 1.0, 2.0)


def sweep(k):
    return ds.sweep(lambda p: k * p**2, jnp.ones(2), {"[0]": [1.0, 2.0]}).outputs


def fisher(k):
    return ds.fisher(lambda p: k * p * _X[:2], jnp.ones(2), noise=Gaussian(0.1)).stderr


def _heated(rod):
    return ds.simulate(rod, 0.1, _EXPLICIT).states[0]


def sweep_of_a_source(k):
    rod = _rod(lambda t, x, u: k * jnp.sin(x[0]))
    return ds.sweep(_heated, rod, {"equation.diffusivity": [0.01, 0.02]}).outputs


def fit_of_a_source(k):
    rod = _rod(lambda t, x, u: k * jnp.sin(x[0]))
    noise, free = Gaussian(0.01), "equation.diffusivity"
    data = _heated(_rod(lambda t, x, u: jnp.sin(x[0])))
    return ds.fit(_heated, rod, data, noise=noise, free=free).loss


def fisher_of_a_source(k):
    rod = _rod(lambda t, x, u: k * jnp.sin(x[0]))
    noise, free = Gaussian(0.01), "equation.diffusivity"
    return ds.fisher(_heated, rod, noise=noise, free=free).stderr


_QUICK = source, predict, field, root, sweep_of_a_source
_OTHERS = wall, steady, predict_by_simulation, noise, condition, observe, force
_OTHERS += sweep, fisher, fit_of_a_source, fisher_of_a_source


@pytest.mark.parametrize(
    "call",
    [*_QUICK, *(pytest.param(call, marks=pytest.mark.slow) for call in _OTHERS)],
    ids=lambda call: call.__name__,
)
def test_changed_constant_takes_effect_without_recompilation(call, compilations):
    first = jax.device_get(call(1.3))
    before = compilations()
    second = jax.device_get(call(0.7))
    assert compilations() == before
    jax.clear_caches()
    anew = jax.device_get(call(0.7))
    assert np.any(np.asarray(first) != np.asarray(second))
    np.testing.assert_allclose(second, anew, rtol=1e-13, atol=1e-15)
