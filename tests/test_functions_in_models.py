"""Models that hold functions are swept, fitted and differentiated."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import implicit, nbody, pde
from diffsim.inference import Gaussian


_TIMES = np.linspace(0.1, 2.0, 5)


class Spring(ds.AbstractSimulation):
    """A function stands before the numbers."""

    force: object
    stiffness: jax.Array
    damping: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.array([1.0, 0.0])

    def terms(self):
        return diffrax.ODETerm(_rate)

    def default_method(self):
        return ds.Method(diffrax.Heun(), step=0.1)


def _rate(t, y, spring):
    pull = spring.force(y[0]) if callable(spring.force) else 0.0
    return jnp.stack([y[1], -spring.stiffness * y[0] - spring.damping * y[1] + pull])


def spring(force=lambda x: 0.1 * jnp.sin(x), stiffness=1.0):
    return Spring(force, jnp.asarray(stiffness), jnp.asarray(0.1))


def positions(model):
    return ds.simulate(model, _TIMES).states[:, 0]


def test_sweep_varies_a_parameter_of_a_model_that_holds_a_function():
    found = ds.sweep(positions, spring(), {"stiffness": [1.0, 4.0]}).outputs
    alone = [positions(spring(stiffness=k)) for k in (1.0, 4.0)]
    np.testing.assert_allclose(found, alone, rtol=1e-12)


def test_fit_recovers_a_parameter_of_a_model_that_holds_a_function():
    data = positions(spring(stiffness=1.3))
    noise = Gaussian(0.01)
    found = ds.fit(positions, spring(), data, noise=noise, free="stiffness")
    np.testing.assert_allclose(found.values, [1.3], rtol=1e-9)
    np.testing.assert_allclose(found.model.force(0.5), 0.1 * np.sin(0.5), rtol=1e-15)

    def of(stiffness):
        return positions(spring(stiffness=stiffness))

    slope = jax.jacfwd(of)(1.3)
    np.testing.assert_allclose(found.stderr, 0.01 / np.linalg.norm(slope), rtol=1e-6)
    forecast = ds.fisher(positions, found.model, noise=noise, free="stiffness")
    np.testing.assert_allclose(forecast.stderr, found.stderr, rtol=1e-6)


_METHODS = {
    "explicit": ds.Method(diffrax.Heun(), step=0.05),
    "by default": None,
}


def heated(rod, method=_METHODS["explicit"]):
    return ds.simulate(rod, 0.3, method).states[0]


def rod(source, wall=0.0, diffusivity=0.05):
    equation = pde.Diffusion(diffusivity, source)
    return pde.Evolution(equation, jnp.zeros(8), pde.Grid(8), pde.Dirichlet(wall))


class Heater:
    def __init__(self, power):
        self.power = power

    def __call__(self, t, x, u):
        return self.power * jnp.sin(x[0])

    def method(self, t, x, u):
        return self(t, x, u)


_SOURCES = {
    "lambda": lambda t, x, u: 2.0 * jnp.sin(x[0]),
    "bound method": Heater(2.0).method,
    "object": Heater(2.0),
    "of the field": lambda t, x, u: 1 - u,
    "with a root inside": lambda t, x, u: (
        implicit.root(lambda y, a: y**3 - a, 1.0, 2.0) * jnp.sin(x[0])
    ),
}


@pytest.mark.parametrize("method", first_plain(_METHODS))
@pytest.mark.parametrize("source", first_plain(_SOURCES, 3))
def test_every_kind_of_callable_source_is_swept_and_fitted(source, method):
    def predict(rod):
        return heated(rod, _METHODS[method])

    source, path = _SOURCES[source], "equation.diffusivity"
    alone = [predict(rod(source, diffusivity=d)) for d in (0.05, 0.1)]
    found = ds.sweep(predict, rod(source), {path: [0.05, 0.1]}).outputs
    np.testing.assert_allclose(found, alone, rtol=1e-12, atol=1e-14)
    fit = ds.fit(predict, rod(source), alone[1], noise=Gaussian(1e-3), free=path)
    np.testing.assert_allclose(fit.values, [0.1], rtol=1e-6)


def test_prediction_that_creates_its_source_is_fitted():
    def predict(d):
        return heated(rod(lambda t, x, u: d * jnp.sin(x[0]), diffusivity=d))

    data = predict(0.1)
    found = ds.fit(predict, jnp.asarray(0.05), data, noise=Gaussian(1e-3))
    np.testing.assert_allclose(found.values, [0.1], rtol=1e-6)


def test_models_with_boundary_or_force_functions_are_swept():
    warm = rod(None, lambda t, x: jnp.sin(t))
    found = ds.sweep(heated, warm, {"equation.diffusivity": [0.05]}).outputs
    np.testing.assert_allclose(found[0], heated(warm), rtol=1e-12)
    bodies = nbody.Bodies([1.0], [[0.0, 0, 0]], [[0.0, 1, 0]])
    falling = nbody.NBody(bodies, lambda t, s: -0.1 * s.velocities, gravity=False)

    def fallen(system):
        method = ds.Method(diffrax.Heun(), step=0.1)
        return ds.simulate(system, 1.0, method).states.positions

    found = ds.sweep(fallen, falling, {"bodies.velocities": [[[0.0, 1.0, 0.0]]]})
    np.testing.assert_allclose(found.outputs[0], fallen(falling), rtol=1e-12)


def test_gradient_through_jit_of_a_run_with_a_source_is_the_eager_one():
    def loss(d):
        return jnp.sum(heated(rod(lambda t, x, u: jnp.sin(x[0]) - u, diffusivity=d)))

    np.testing.assert_allclose(
        jax.grad(jax.jit(loss))(0.05), jax.grad(loss)(0.05), rtol=1e-12
    )
