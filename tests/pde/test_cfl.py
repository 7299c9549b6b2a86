"""Step sizes by the CFL condition, and warnings of unstable fixed steps."""

import warnings

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.pde._time_step._stability_check import _stability_limit


def wave(amplitude=1.0, n=40):
    grid = pde.Grid(n)
    start = amplitude * (1.5 + jnp.sin(2 * jnp.pi * grid.centers[0]))
    return pde.Evolution(pde.Burgers(scheme=pde.MUSCL()), start, grid)


METHOD = ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.4))


def test_steps_have_the_given_courant_number():
    run = ds.simulate(wave(), 0.2, METHOD)
    ends = np.asarray(run.steps)
    ends = ends[np.isfinite(ends)]
    first = np.max(np.asarray(wave().initial))
    np.testing.assert_allclose(ends[0], 0.4 / 40 / first, rtol=1e-12)
    np.testing.assert_allclose(pde.cfl_time_step(wave(), 0.4), ends[0], rtol=1e-12)
    assert np.all(np.diff(ends) < 0.4 / 40 / 1.5)


@pytest.mark.slow
def test_steps_match_diffrax_with_the_same_controller():
    times = [0.05, 0.051, 0.2]
    found = ds.simulate(wave(2.0), times, METHOD)
    known = diffrax.diffeqsolve(
        wave(2.0).terms(),
        METHOD.solver,
        0.0,
        times[-1],
        None,
        wave(2.0).initial_state(),
        wave(2.0),
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
        stepsize_controller=METHOD.controller,
    )
    assert found.stats["num_steps"] == known.stats["num_steps"]
    # Others than the last are steps of their own here, and there an interpolant's.
    found, known = found.states[-1], known.ys[-1]
    np.testing.assert_allclose(found, known, rtol=1e-13, atol=1e-13)


def test_backward_run_measures_steps_at_its_own_time():
    # So fast that no step is a hundredth of the run; upwind grows without bound.
    law = pde.AdvectionDiffusion(
        None, lambda t, x: 5 * jnp.exp(-3 * t), scheme=pde.Central()
    )
    grid = pde.Grid(32)
    ring = pde.Evolution(law, jnp.sin(2 * jnp.pi * grid.centers[0]), grid)
    ends = np.asarray(ds.simulate(ring, -0.3, METHOD).steps)
    times = np.append(0.0, np.sort(ends[np.isfinite(ends)])[::-1])
    # The last one ends where the run does.
    lengths = 0.4 / 32 / 5 * np.exp(3 * times[:-2])
    np.testing.assert_allclose(-np.diff(times)[:-1], lengths, rtol=1e-12)


@pytest.mark.slow
def test_derivatives_equal_those_at_frozen_steps_in_both_modes():
    frozen = METHOD.freeze_steps(ds.simulate(wave(), 0.1, METHOD))

    def final(method):
        return lambda a: jnp.sum(ds.simulate(wave(a), 0.1, method).states ** 2)

    for derivative in (jax.jacfwd, jax.jacrev):
        steered, given = (derivative(final(m))(1.0) for m in (METHOD, frozen))
        np.testing.assert_allclose(steered, given, rtol=1e-10)
    h = 1e-5
    differences = (final(frozen)(1 + h) - final(frozen)(1 - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(final(frozen))(1.0), differences, rtol=1e-8)


def test_water_at_rest_takes_few_long_steps():
    grid = pde.Grid(8)
    still = pde.Evolution(pde.AdvectionDiffusion(0.0, 0.0), jnp.ones(8), grid)
    run = ds.simulate(still, 3.0, METHOD)
    assert run.stats["num_steps"] == 10
    np.testing.assert_array_equal(run.states, jnp.ones((1, 8)))


def gust(t, x):
    return jnp.sin(2 * t)


STARTS = {
    "at rest, flooded": (pde.Burgers(), 0.0, (pde.Inflow(1.0), pde.Outflow())),
    "eaten": (pde.AdvectionDiffusion(None, 0.1, source=lambda t, x, u: -90 * u), 1.0),
    "at rest, driven": (pde.Burgers(source=lambda t, x, u: jnp.sin(7 * x[0])), 0.0),
    "a gust": (pde.AdvectionDiffusion(None, gust), 1.0),
    "fed in turns": (
        pde.AdvectionDiffusion(None, 0.0, source=lambda t, x, u: jnp.cos(10 * t)),
        0.0,
    ),
}


@pytest.mark.parametrize("name", first_plain(STARTS))
def test_default_steps_follow_flow_from_rest(name):
    """Of a step that the start alone would choose nothing is left."""
    law, height, *walls = STARTS[name]
    grid = pde.Grid(32)
    bump = height * jnp.exp(-50 * (grid.centers[0] - 0.5) ** 2)
    system = pde.Evolution(law, bump, grid, *walls)
    found = ds.simulate(system, 1.0)
    exact = ds.simulate(system, 1.0, ds.Method(integrators.SSPRK3(), 1e-3)).states
    assert found.stats["num_steps"] < 200
    # In the cell of a shock; of steps that the start alone chose, 16 to 1e10.
    np.testing.assert_allclose(found.states, exact, atol=0.01)


def test_derivatives_pass_through_rejected_steps():
    grid = pde.Grid(16)

    def total(speed):
        ends = (pde.Inflow(speed), pde.Outflow())
        run = ds.simulate(pde.Evolution(pde.Burgers(), jnp.zeros(16), grid, ends), 0.5)
        return jnp.sum(run.states**2), run.stats["num_rejected_steps"]

    @jax.jit
    def both(speed):
        _, forward, rejected = jax.jvp(total, (speed,), (1.0,), has_aux=True)
        return forward, jax.grad(total, has_aux=True)(speed)[0], rejected

    forward, reverse, rejected = both(1.0)
    assert rejected > 0
    assert np.isfinite(forward)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)


def test_run_that_becomes_nan_fails_with_result():
    """Two streams that part leave a vacuum behind."""
    grid, gas = pde.Grid(40), pde.Euler(1.4, scheme=pde.WENO5())
    x = grid.centers[0]
    start = gas.state(1.0, 30 * jnp.sign(x - 0.5)[None], 1e-3)
    parted = pde.Evolution(gas, start, grid, pde.Outflow())
    run = ds.simulate(parted, 0.1, throw=False)
    assert not np.all(np.isfinite(run.states))
    assert run.result != ds.RESULTS.successful


LAWS = {
    "waves": pde.Wave(1.5),
    "heat": pde.Diffusion(lambda t, x, u: 0.02 + 0.01 * u),
    "smoke": pde.AdvectionDiffusion(0.01, 0.9),
    "gas": pde.Burgers(0.01),
}


def ring(law, n=24):
    grid = pde.Grid(n)
    u = 1.5 + jnp.sin(2 * jnp.pi * grid.centers[0])
    start = jnp.stack([u] * law.channels(1))
    return pde.Evolution(law, start, grid)


@pytest.mark.parametrize("law", first_plain(LAWS.values(), 2), ids=LAWS)
def test_fixed_step_above_stability_limit_warns_with_stable_step(law):
    system = ring(law)
    solver = integrators.Leapfrog() if isinstance(law, pde.Wave) else diffrax.Heun()
    limit = float(pde.cfl_time_step(system, 1.0))
    ds.simulate(system, 0.9 * limit, ds.Method(solver, step=0.9 * limit))
    long = 1.1 * limit
    with pytest.warns(UserWarning, match=r"take a fixed step of \d") as found:
        ds.simulate(system, long, ds.Method(solver, step=long))
    said = str(found[0].message)
    # Leapfrog has no other than fixed steps.
    assert ("controller=pde.CFL()" in said) != isinstance(law, pde.Wave)
    good = float(said.split("fixed step of ")[1].split(",")[0])
    np.testing.assert_allclose(good, limit / 2, rtol=0.1)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_stability_limit_of_diffusion_and_advection(law):
    """In closed form, the fields on this ring being what they are."""
    n, u = 24, np.asarray(ring(law).initial)
    exact = {
        "waves": 1.5 * n,
        "heat": 2 * (0.02 + 0.01 * u.max()) * n**2,
        "smoke": 0.9 * n + 2 * 0.01 * n**2,
        "gas": u.max() * n + 2 * 0.01 * n**2,
    }
    name = next(name for name, other in LAWS.items() if other is law)
    np.testing.assert_allclose(
        pde.cfl_time_step(ring(law), 1.0), 1 / exact[name], rtol=1e-12
    )


@pytest.mark.slow
def test_cavity_flows_are_limited_by_speed_friction_and_drag():
    grid = pde.Grid((8, 16))
    cavity = pde.IncompressibleFlow(
        0.01,
        grid,
        pde.FreeSlip(),
        initial=lambda x: jnp.stack([x[1] - 0.5, 0 * x[0]]),
        obstacle=pde.Obstacle(pde.Ball((0.5, 0.5), 0.2), penalization_time=0.25),
    )
    fastest = jnp.max(jnp.abs(cavity.velocities(0.0, cavity.initial_state())[0])) * 8
    rising = jnp.max(jnp.abs(cavity.velocities(0.0, cavity.initial_state())[1])) * 16
    exact = fastest + rising + 2 * 0.01 * (8**2 + 16**2) + 2
    np.testing.assert_allclose(pde.cfl_time_step(cavity, 1.0), 1 / exact, rtol=1e-12)
    with pytest.warns(UserWarning, match="Heun becomes unstable for the fastest"):
        ds.simulate(cavity, 0.4, ds.Method(diffrax.Heun(), step=0.2), throw=False)


def test_implicit_and_adaptive_steps_do_not_warn():
    system = ring(LAWS["heat"])
    following = ds.Method(integrators.SSPRK3(), controller=pde.CFL(1.0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for method in (ds.Method(integrators.Kvaerno3(), step=0.5), following):
            jax.eval_shape(lambda m=method: ds.simulate(system, 0.5, m).states)
    assert not [w for w in said if "take a fixed step" in str(w.message)]


WALLS = {
    "pipe": (pde.Periodic(), pde.NoSlip()),
    "open": ((pde.Inflow((1.0, 0.0)), pde.Outflow()), pde.NoSlip()),
    "cavity": pde.NoSlip(),
    "basin": (pde.NoSlip(), pde.FreeSlip()),
}


@pytest.mark.parametrize("name", first_plain(WALLS))
def test_friction_of_flows_at_rest_decays_within_stability_limit(name):
    """By all eigenvalues; and as fast along the walls of a pipe, where they count."""
    grid = pde.Grid((4, 12), 0.0, (50.0, 1.0)) if name == "pipe" else pde.Grid((8, 8))
    flow = pde.IncompressibleFlow(0.1, grid, WALLS[name])
    at_rest = jax.tree.map(jnp.zeros_like, jax.eval_shape(flow.initial_state))
    start, unravel = ravel_pytree(at_rest)
    rate = flow.terms().vf

    @jax.jit
    @jax.jacfwd
    def jacobian(y):
        return ravel_pytree(rate(0.0, unravel(y), None))[0]

    fastest = np.max(np.abs(np.linalg.eigvals(jacobian(start))))
    carried = 8.0 if name == "open" else 0.0
    limit = 2 * (float(flow.courant_rate(0.0, at_rest)) - carried)
    assert fastest <= limit * (1 + 1e-4)
    if name == "pipe":
        np.testing.assert_allclose(fastest, limit, rtol=1e-4)


def test_stability_limits_of_solvers_match_known_values():
    """Half of where their polynomials of stability reach one, on the real axis."""
    known = {
        diffrax.Euler: 2.0,
        diffrax.Heun: 2.0,
        integrators.SSPRK3: 2.5127,
        diffrax.Bosh3: 2.5127,
    }
    for solver, limit in known.items():
        np.testing.assert_allclose(2 * _stability_limit(solver()), limit, atol=0.011)
    assert _stability_limit(integrators.Leapfrog()) == 1
