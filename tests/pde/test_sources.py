"""What is added to equations that conserve: sources, closures, forces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde


RING = pde.Grid(16, 0.0, 2 * np.pi)
G = 9.81


def test_a_gas_falls_as_everything_does():
    """v = −g t where nothing else acts, and heat stays what it was."""
    gas = pde.Euler(1.4, source=lambda t, x, u: -G * jnp.stack([0 * u[0], u[0], u[1]]))
    start = gas.state(1.2 * jnp.ones(16), jnp.full((1, 16), 0.3), jnp.ones(16))
    run = pde.Evolution(gas, start, RING)
    method = ds.Method(integrators.SSPRK3(), step=0.01)
    density, v, pressure = gas.fields(ds.simulate(run, 0.2, method).states)
    np.testing.assert_allclose(density, 1.2, rtol=1e-14)
    np.testing.assert_allclose(v, 0.3 - 0.2 * G, rtol=1e-12)
    np.testing.assert_allclose(pressure, 1, rtol=1e-12)


def test_wind_sets_water_in_motion():
    wind = jnp.array([0.0, 0.4])[:, None]
    water = pde.ShallowWater(G, source=wind)
    start = jnp.stack([2 * jnp.ones(16), jnp.zeros(16)])
    method = ds.Method(integrators.SSPRK3(), step=0.01)
    states = ds.simulate(pde.Evolution(water, start, RING), 0.1, method).states
    np.testing.assert_allclose(states[0], 2, rtol=1e-14)
    np.testing.assert_allclose(states[1], 0.04, rtol=1e-12)


#: Laws, what they make of u and its derivatives, and the error that is left: modes have
#: none of space, sixteen cells a wave one of 1/1000.
MADE_UP = {
    "Korteweg-de Vries": (
        pde.KortewegDeVries,
        lambda u, d: -6 * u * d(1) - d(3),
        1e-7,
    ),
    "Kuramoto-Sivashinsky": (
        pde.KuramotoSivashinsky,
        lambda u, d: -u * d(1) - d(2) - d(4),
        1e-7,
    ),
    "Burgers": (
        eqx.Partial(pde.Burgers, 0.3),
        lambda u, d: -u * d(1) + 0.3 * d(2),
        2e-3,
    ),
}
#: The derivatives of a sine, one after another.
SINES = (jnp.sin, jnp.cos, lambda a: -jnp.sin(a), lambda a: -jnp.cos(a))


@pytest.mark.parametrize("name", MADE_UP)
def test_solutions_that_are_made_up_are_those_with_their_source(name):
    """u = p sin(x − t) + 1/2, with a source that knows p and the field."""
    law, rate, most = MADE_UP[name]

    def wave(p, t, x):
        return p * jnp.sin(x - t) + 0.5

    def source(p, t, x, u):
        own = rate(wave(p, t, x), lambda n: p * SINES[n % 4](x - t))
        # The field that it is told of is the solution.
        return -p * jnp.cos(x - t) - own + u - wave(p, t, x)

    def error(p):
        (x,) = RING.centers
        made = law(source=lambda t, x, u: source(p, t, x[0], u))
        run = pde.Evolution(made, wave(p, 0.0, x), RING)
        spectral = isinstance(run.space, pde.Fourier)
        solver = integrators.ETDRK4() if spectral else integrators.SSPRK3()
        method = ds.Method(solver, step=0.01)
        return ds.simulate(run, 0.2, method).states[0] - wave(p, 0.2, x)

    value, slope = jax.jit(lambda p: jax.jvp(error, (p,), (1.0,)))(0.7)
    assert np.max(np.abs(value)) < most
    assert np.max(np.abs(slope)) < 3 * most
