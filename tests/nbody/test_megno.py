"""MEGNO: closed forms, regular and chaotic orbits, and REBOUND's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from diffsim import nbody


def planets(mass, outer):
    orbits = nbody.Elements(
        semi_major_axis=[1.0, outer],
        eccentricity=[0.05, 0.05],
        inclination=[0.0, 0.02],
        argument_of_pericenter=[0.0, 1.0],
        true_anomaly=[0.3, 2.0],
    )
    bodies = nbody.Bodies.from_elements([1.0, mass, mass], orbits, jacobi=True)
    return nbody.NBody(bodies)


def alone(*forces, gravity):
    body = nbody.Bodies([1.0], [[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.0]])
    return nbody.NBody(body, forces or None, gravity=gravity)


def test_megno_of_a_free_body_is_that_of_linear_growth():
    """|δ|² = 1 + t² of δ = (t, 1), whose ⟨Y⟩ is 2 − (2/t) ∫ atan(s)/s ds."""
    tangent = np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0]])
    times = np.array([1.0, 10.0, 100.0])
    found = nbody.megno(alone(gravity=True), times, tangent=tangent)
    integral = [
        scipy.integrate.quad(lambda s: np.arctan(s) / s, 0, t, epsabs=1e-12)[0]
        for t in times
    ]
    np.testing.assert_allclose(found.values, 2 - 2 / times * integral, atol=1e-7)
    growth = np.log1p(times**2) / 2
    np.testing.assert_allclose(found.log_growth, growth, rtol=1e-7)
    np.testing.assert_allclose(found.lyapunov_times, times / growth, rtol=1e-7)


@pytest.mark.slow
def test_megno_of_a_harmonic_oscillator_is_zero():
    """Its tangent turns, in phase space, and keeps its length."""

    def spring(t, state):
        return -state.positions

    found = nbody.megno(alone(spring, gravity=False), 50.0)
    np.testing.assert_allclose([found.values, found.log_growth], 0.0, atol=1e-7)


@pytest.mark.slow
def test_megno_of_regular_and_chaotic_planets_is_that_of_rebound():
    """REBOUND sums over its steps, to a thousandth."""
    for mass, outer, regular in ((1e-4, 1.7, True), (1e-3, 1.28, False)):
        system = planets(mass, outer)
        simulation = system.to_rebound()
        simulation.integrator = "ias15"
        simulation.init_megno(seed=3)
        tangent = tuple(
            np.array([getattr(p, part) for p in list(simulation.particles_var)[:3]])
            for part in ("xyz", "vxyz")
        )
        found = nbody.megno(system, 300.0, tangent=tangent)
        simulation.integrate(300.0)
        assert (abs(found.values - 2) < 0.15) == regular
        np.testing.assert_allclose(found.values, simulation.megno(), rtol=5e-3)


@pytest.mark.slow
def test_megno_of_chaotic_orbits_grows_by_their_lyapunov_time():
    """By t / (2 T_L), where T_L is that of the tangent, here 14."""
    system = planets(1e-3, 1.28)
    times = np.array([1000.0, 2000.0, 4000.0])
    found = nbody.megno(system, times)
    expected = times / (2 * np.asarray(found.lyapunov_times))
    np.testing.assert_allclose(found.values[1:], expected[1:], rtol=0.35)
    assert float(rebound_lyapunov(system, 4000.0)) == pytest.approx(
        float(1 / found.lyapunov_times[-1]), rel=0.5
    )


def rebound_lyapunov(system, time):
    simulation = system.to_rebound()
    simulation.integrator = "ias15"
    simulation.init_megno(seed=0)
    simulation.integrate(time)
    return simulation.lyapunov()


def test_megno_has_a_derivative():
    def indicator(speed):
        body = nbody.Bodies(
            [1.0, 0.0], jnp.eye(2, 3), jnp.array([[0, 0, 0], [speed, 0, 0]])
        )
        return nbody.megno(nbody.NBody(body), 3.0).values

    both = jax.jit(jax.jacfwd(lambda speed: 2 * (indicator(speed),), has_aux=True))
    slope, _ = both(1.0)
    differences = (both(1.0 + 1e-5)[1] - both(1.0 - 1e-5)[1]) / 2e-5
    np.testing.assert_allclose(slope, differences, rtol=1e-5)
