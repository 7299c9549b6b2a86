"""Failures are reported with their cause, time and place."""

import re

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, nbody, pde
from diffsim.simulations import AbstractSimulation, Method, simulate


class Square(AbstractSimulation):
    """y' = y², which is infinite at t = 1 / y(0)."""

    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: y**2)

    def default_method(self):
        return Method(diffrax.Tsit5())


def falling(separation):
    """Two bodies at rest."""
    positions = jnp.array([[0.0, 0, 0], [separation, 0, 0]])
    bodies = nbody.Bodies(jnp.ones(2), positions, jnp.zeros((2, 3)))
    return nbody.NBody(bodies)


_DOPRI = Method(diffrax.Dopri8())


def test_blow_up_in_finite_time_has_the_result_dt_min_reached():
    with pytest.raises(RuntimeError, match=r"too short to go on.*at t = 0\.5\."):
        simulate(Square(jnp.asarray(2.0)), 1.0)
    found = simulate(Square(jnp.asarray(2.0)), [0.25, 1.0], throw=False)
    assert found.result == ds.RESULTS.dt_min_reached
    assert int(found.stats["num_steps"]) < 2000
    assert float(found.final.t) == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(found.states[0], 4.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"too short to go on.*at t = -0\.5\."),
        ({"max_steps": 20}, r"led to t = -0\.\d+ on the way to -0\.6\."),
    ],
)
def test_failure_before_the_epoch_is_placed_there(options, words):
    """However far the run went after it."""
    with pytest.raises(RuntimeError, match=words):
        simulate(Square(jnp.asarray(-2.0)), [-0.6, 10.0], **options)


@pytest.mark.parametrize("dtype", first_plain([jnp.float32, jnp.float64]))
@pytest.mark.parametrize("times", first_plain([-1.0, 1.0]))
def test_blow_up_is_diagnosed_in_both_precisions_and_time_directions(dtype, times):
    start = jnp.asarray(2.0 * np.sign(times), dtype)
    found = simulate(Square(start), times, throw=False)
    assert found.result == ds.RESULTS.dt_min_reached
    assert float(found.final.t) == pytest.approx(0.5 * times, abs=1e-3)


@pytest.mark.slow
def test_failure_before_the_epoch_is_reported_with_its_time():
    with pytest.raises(RuntimeError, match=r"at t = -0\.5\."):
        simulate(Square(jnp.asarray(-2.0)), [-1.0, 1.0])
    found = simulate(Square(jnp.asarray(-2.0)), [-1.0, 1.0], throw=False)
    assert float(found.final.t) == pytest.approx(-0.5, abs=1e-6)
    np.testing.assert_allclose(found.states[1], -2 / 3, rtol=1e-6)


def test_collision_and_coincidence_are_not_reported_as_too_few_steps():
    # A fall from rest takes π/2 √(r³ / 2 G m), 0.785 of two unit masses 1 apart.
    late = 10.0 * np.pi / 8
    message = r"bodies 0 and 1, were .* apart at t = 0\.785398, .* Bodies collide"
    with pytest.raises(RuntimeError, match=message):
        simulate(falling(1.0), late, _DOPRI)
    found = simulate(falling(0.0), 1.0, _DOPRI, throw=False)
    assert found.result == ds.RESULTS.dt_min_reached
    assert int(found.stats["num_steps"]) < 500


def three(names=None):
    """The first and the last of them fall onto each other."""
    positions = [[0.0, 0, 0], [60, 5, 0], [1, 0, 0]]
    return nbody.Bodies([1.0, 1e-9, 1.0], positions, np.zeros((3, 3)), names=names)


@pytest.mark.parametrize(
    ("system", "pair"),
    [
        (nbody.NBody(three()), "bodies 0 and 2"),
        (nbody.NBody(three(("Sun", "Halley", "Vulcan"))), "Sun and Vulcan"),
        # Of the test particles one falls; those that coincide do not meet.
        (
            nbody.NBody(
                nbody.Bodies([2.0], np.zeros((1, 3)), np.zeros((1, 3))),
                test_particles=nbody.TestParticles(
                    [[9.0, 9, 0], [9, 9, 0], [0, 1, 0]], np.zeros((3, 3))
                ),
            ),
            "bodies 0 and 3",
        ),
    ],
)
def test_error_of_a_collision_names_the_bodies(system, pair):
    message = (
        rf"The closest two, {pair}, were (\S+) apart at t = 0\.785\d*, and 1 at t0"
    )
    with pytest.raises(RuntimeError, match=message) as failure:
        simulate(system, 4.0, _DOPRI)
    assert float(re.search(message, str(failure.value))[1]) < 1e-6


def test_error_of_coincident_bodies_at_fixed_steps_names_them():
    message = r"bodies 0 and 1, were 0 apart at t = 0, and 0 at t0\. The state became"
    with pytest.raises(RuntimeError, match=message):
        simulate(falling(0.0), 1.0, Method(integrators.Leapfrog(), 0.1))


def test_error_of_a_single_diverging_body_names_no_pair():
    body = nbody.Bodies([1.0], np.zeros((1, 3)), np.ones((1, 3)))
    lost = nbody.NBody(body, lambda t, s: s.positions**3 * 1e9, gravity=False)
    with pytest.raises(RuntimeError, match=r"It was at t = "):
        simulate(lost, 4.0, _DOPRI)


@pytest.mark.parametrize("mode", first_plain([jax.grad, jax.jacfwd]))
def test_gradient_of_a_failed_run_raises_the_same_error(mode):
    def fallen(distance):
        return jnp.sum(simulate(falling(distance), 4.0, _DOPRI).states.positions)

    with pytest.raises(RuntimeError, match=r"bodies 0 and 1, .* at t = 0\.785398"):
        mode(fallen)(1.0)

    def lost(pressure):
        return jnp.sum(simulate(tube(pressure, 1e-2, pde.WENO5()), 0.01).states)

    with pytest.raises(RuntimeError, match=r"Euler lost positivity at t = .* in cell"):
        mode(lost)(1e3)

    def sourced(strength):
        """By a source that closes over what is differentiated, at fixed steps."""
        source = pde.Diffusion(0.1, source=lambda t, x, u: strength * u**2)
        heat = pde.Evolution(source, jnp.ones(8), pde.Grid(8, 0.0, 8.0))
        return jnp.sum(simulate(heat, 4.0, Method(integrators.SSPRK3(), 0.1)).states)

    with pytest.raises(RuntimeError, match="Diffusion blew up after t = "):
        mode(sourced)(1.0)


def test_error_under_jit_has_no_numbers():
    with pytest.raises(Exception, match="The steps became too short to go on"):
        jax.jit(lambda y: simulate(Square(y), 1.0).states)(2.0)


@pytest.mark.slow
def test_failed_run_in_a_batch_leaves_the_others_unchanged():
    with ds.simulations.failures_as_nan():
        run = jax.vmap(lambda y: simulate(Square(y), 0.4).states)
        found = run(jnp.array([1.0, 4.0, 2.0]))
    np.testing.assert_allclose(found[::2], [1 / 0.6, 10.0], rtol=1e-6)
    assert np.isnan(found[1])


def test_very_short_runs_succeed():
    """As steps within a rounding of the end of a run would be."""
    square = Square(jnp.asarray(1e21))
    found = simulate(square, [0.1e-21, 0.5e-21, 0.9e-21])
    np.testing.assert_allclose(found.states, 1e21 / np.array([0.9, 0.5, 0.1]), 1e-6)


_GRID = pde.Grid(64)


def tube(left, right, scheme, limited=False):
    gas = pde.Euler(scheme=scheme, positivity_limiter=limited)
    (x,) = _GRID.centers
    pressure = jnp.where(x < 0.5, left, right)
    start = gas.state(jnp.ones(64), jnp.zeros((1, 64)), pressure)
    return pde.Evolution(gas, start, _GRID, pde.Outflow())


def test_lost_positivity_is_reported_with_time_and_cell():
    lost = tube(1e3, 1e-2, pde.WENO5())
    message = (
        r"Euler lost positivity.* at t = [\d.e-]+ in cell 3[0-4]; "
        r"positivity_limiter=True keeps it\. A density, pressure or depth was lost"
    )
    with pytest.raises(RuntimeError, match=message):
        simulate(lost, 0.01)
    found = simulate(lost, 0.01, throw=False)
    assert found.result == ds.RESULTS.positivity_lost
    assert int(found.stats["num_steps"]) < 200
    kept = simulate(tube(1e3, 1e-2, pde.WENO5(), limited=True), 0.01)
    assert kept.result == ds.RESULTS.successful


@pytest.mark.filterwarnings("ignore:step=:UserWarning")
def test_lost_positivity_at_fixed_steps_is_reported():
    method = Method(integrators.SSPRK3(), 5e-3)
    with pytest.raises(
        RuntimeError, match=r"Euler lost positivity.* at t = .* in cell"
    ):
        simulate(tube(1e3, 1e-2, None), 0.1, method)
    run = jax.jit(lambda p: simulate(tube(p, 1e-2, None), 0.1, method).states)
    with pytest.raises(Exception, match="A density, pressure or depth was lost"):
        run(1e3)


def test_blow_up_at_fixed_steps_is_reported_with_its_time():
    with pytest.raises(RuntimeError, match=r"became infinite.* at t = [23]\.\d"):
        simulate(Square(jnp.asarray(1.0)), 10.0, Method(diffrax.Euler(), 0.1))


def test_blow_up_of_a_field_is_told_in_words_for_fields():
    law = pde.Diffusion(0.01, lambda t, x, u: u**2)
    bar = pde.Evolution(law, jnp.ones(8), pde.Grid(8), pde.Neumann())
    with pytest.raises(RuntimeError, match=r"Diffusion blew up .* The field") as found:
        simulate(bar, 2.0)
    assert "softening" not in str(found.value)
    law = pde.Wave(1.0, source=lambda t, x, u: u**3)
    string = pde.Evolution(law, jnp.ones((2, 8)), pde.Grid(8), pde.Neumann())
    method = Method(integrators.Leapfrog(), 0.01)
    found = simulate(string, 20.0, method, throw=False)
    assert found.result == ds.RESULTS.field_not_finite


def waves(steps, amplitude=1.0):
    (x,) = _GRID.centers
    start = amplitude * jnp.sin(2 * jnp.pi * x) + 1e-6 * jnp.cos(63 * jnp.pi * x)
    heat = pde.Evolution(pde.Diffusion(0.1), start, _GRID)
    return simulate(heat, 0.01 * steps, Method(diffrax.Euler(), 0.01), throw=False)


@pytest.mark.filterwarnings("ignore:step=:UserWarning")
def test_overflow_of_unstable_steps_has_the_result_unstable_steps():
    found = waves(20)
    assert found.result == ds.RESULTS.unstable_steps
    assert "successful" not in str(found)
    assert "steps that are longer than the solver is stable for" in str(found)
    assert waves(2).result == ds.RESULTS.successful


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nonfinite_initial_state_raises_before_compilation(wrong):
    start = np.ones(64)
    start[7] = wrong
    message = f"initial must be finite, got {wrong}"
    with pytest.raises(ValueError, match=message):
        pde.Evolution(pde.Diffusion(0.1), start, _GRID)
    # Of what is traced it is a result.
    run = jax.jit(
        lambda u: (
            simulate(
                pde.Evolution(pde.Diffusion(0.1), u, _GRID), 0.1, throw=False
            ).result
        )
    )
    assert run(start) == ds.RESULTS.initial_state_not_finite
