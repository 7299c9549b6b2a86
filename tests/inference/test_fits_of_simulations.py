"""`fit` and `fisher` on a simulation: free leaves, data and failed runs."""

import dataclasses

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
import pytest
from jaxtyping import Array
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.inference import FitOptions, Gaussian, fisher, fit
from diffsim.simulations import AbstractSimulation, Method, load, save, simulate


TIMES = np.linspace(0, 10, 101)


class Oscillator(AbstractSimulation):
    """x'' = −2γx' − (ω² + γ²)x: A e^{−γt} cos(ωt + φ) from A, γ, ω, φ."""

    A: Array = eqx.field(converter=jnp.asarray)
    gamma: Array = eqx.field(converter=jnp.asarray)
    omega: Array = eqx.field(converter=jnp.asarray)
    phi: Array = eqx.field(converter=jnp.asarray)
    t0: float = 0.0

    def initial_state(self):
        c, s = self.A * jnp.cos(self.phi), self.A * jnp.sin(self.phi)
        return jnp.stack([c, -self.gamma * c - self.omega * s])

    def terms(self):
        def field(t, y, args):
            stiffness = self.omega**2 + self.gamma**2
            return jnp.stack([y[1], -2 * self.gamma * y[1] - stiffness * y[0]])

        return diffrax.ODETerm(field)

    def default_method(self):
        return Method(diffrax.Dopri8(), 0.05)

    def observe(self, t, y):
        return y[0]


def run(simulation):
    return simulate(simulation, TIMES)


@pytest.fixture(scope="module")
def truth():
    return Oscillator(1.0, 0.1, 2.0, 0.3)


def test_custom_simulation_has_the_closed_form_error_bars(truth):
    found = fisher(run, truth, noise=Gaussian(0.05))
    assert found.names == ("A", "gamma", "omega", "phi"), "a Python t0 is static"
    published = [0.01802473, 0.00412565, 0.00404554, 0.01730784]  # references.md
    np.testing.assert_allclose(found.stderr, published, atol=5e-9)
    assert abs(found.correlation[2, 3] + 0.789654) < 5e-7


@pytest.mark.slow
def test_trajectory_as_data_is_fitted_and_the_fit_saved(truth, tmp_path):
    start = Oscillator(0.9, 0.12, 2.05, 0.25)
    found = fit(run, start, run(truth), noise=Gaussian(0.05))
    assert isinstance(found.model, Oscillator)
    np.testing.assert_allclose(found.values, [1.0, 0.1, 2.0, 0.3], rtol=1e-7)
    save(tmp_path / "fit.eqx", found)
    kept = load(tmp_path / "fit.eqx", classes=[Oscillator])
    assert str(kept) == str(found) and kept.status == RESULTS.successful


def test_status_of_a_fit_is_that_of_its_failed_simulation(truth):
    def short(simulation):
        adaptive = Method(
            diffrax.Tsit5(),
            0.1,
            controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
            max_steps=4,
        )
        return simulate(simulation, TIMES, adaptive)

    found = fit(short, truth, np.zeros(101), noise=Gaussian(1.0))
    assert found.status == RESULTS.max_steps_reached
    assert np.all(np.isnan(found.stderr))
    known = fisher(short, truth, noise=Gaussian(1.0))
    assert known.status == RESULTS.max_steps_reached


@pytest.mark.parametrize(
    "solver", first_plain([optx.BFGS(1e-6, 1e-6), (optax.adam(0.1),)])
)
def test_failed_run_does_not_raise_in_other_solvers(truth, solver):
    few = Method(
        diffrax.Tsit5(),
        controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        max_steps=4,
    )
    found = fit(
        lambda simulation: simulate(simulation, TIMES, few),
        truth,
        np.zeros(101),
        noise=Gaussian(1.0),
        solver=solver,
        options=FitOptions(max_steps=3, covariance=False),
    )
    assert found.status != RESULTS.successful and not np.isfinite(found.loss)


@pytest.mark.parametrize(
    "method", [Method(diffrax.Heun(), 0.05), Method(diffrax.Dopri8(), 0.05)]
)
def test_solver_error_is_in_units_of_the_error_bars(truth, method):
    data = run(truth)  # by Dopri8: exact to 1e-13
    near = fit(
        lambda simulation: simulate(simulation, TIMES, method),
        truth,
        data,
        noise=Gaussian(0.05),
    )
    moved = np.abs((near.values - np.array([1.0, 0.1, 2.0, 0.3])) / near.stderr)
    if isinstance(method.solver, diffrax.Heun):
        # half the step of a second-order solver takes away three quarters of its error
        np.testing.assert_allclose(near.solver_error, 0.75 * moved, rtol=0.1, atol=0.02)
        assert max(moved) > 0.1
        assert "take a smaller step or tolerance" in str(near)
        worst = float(np.max(near.solver_error))
        assert worst > 0.3 and f"is {worst:.2g} sigma in" in near.flags["solver_error"]
        headline = str(near).splitlines()[0]
        assert f"converged, but {near.flags['solver_error']}" in headline
        # Of less the table advises, and of a tenth of an error bar it says nothing.
        for share, advises in ((0.2, True), (0.05, False)):
            less = near.solver_error * share / worst
            known = dataclasses.replace(near, solver_error=less)
            assert known.flags == {}
            assert ("take a smaller step or tolerance" in str(known)) == advises
    else:
        assert np.all(moved < 1e-6) and np.all(near.solver_error < 1e-6)
        assert "finer steps would move no value by more than" in str(near)
        assert near.flags == {} and str(near).splitlines()[0].endswith("converged")


def test_solver_error_is_nan_without_a_simulation():
    line = fit(
        lambda p: p * jnp.arange(4.0), jnp.array(1.0), np.ones(4), noise=Gaussian()
    )
    assert np.all(np.isnan(line.solver_error))
    assert "Solver error" not in str(line)
