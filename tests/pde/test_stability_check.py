"""Stability check: fixed steps above the limit of explicit solvers warn."""

import warnings

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


GRID = pde.Grid(32, 0.0, 2 * np.pi)


def stream():
    """The shortest waves that products are kept of, all carried at one speed."""
    ripple = 1e-9 * jnp.cos(10 * GRID.centers[0])
    law = pde.KuramotoSivashinsky(
        second_order_coefficient=-0.02, fourth_order_coefficient=0.0
    )
    return pde.Evolution(law, 1.5 + ripple, GRID)


def swirls(n=32):
    grid = pde.Grid((n, n), 0.0, 2 * np.pi)
    x, y = grid.centers
    return pde.Evolution(
        pde.NavierStokesVorticity(1e-3), 2 * jnp.sin(x) * jnp.sin(y), grid
    )


def cavity(viscosity=1e-3):
    walls = pde.NoSlip(), (pde.NoSlip(), pde.NoSlip((1.0, 0.0)))
    return pde.IncompressibleFlow(viscosity, pde.Grid((16, 16)), walls)


def warned(simulation, solver, step):
    """What is said of a step: the limit and the step that would do, or nothing."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        simulation.check_method(ds.Method(solver, step=step))
    if not found:
        return None
    (said,) = [str(w.message) for w in found]
    limit = float(said.split("longer than ")[1].split(",")[0])
    return limit, float(said.split("fixed step of ")[1].split(",")[0])


def smoke(a):
    law = pde.AdvectionDiffusion(None, lambda t, x: a + 0 * x)
    return pde.Evolution(law, jnp.sin(GRID.centers[0]), GRID)


def heat(a):
    law = pde.Diffusion(lambda t, x, u: a + 0 * u)
    return pde.Evolution(law, jnp.sin(GRID.centers[0]), GRID)


def string(a):
    u = jnp.sin(GRID.centers[0])
    return pde.Evolution(pde.Wave(lambda x: a + 0 * x[0]), jnp.stack([u, 0 * u]), GRID)


def pipe(a):
    def enters(t, x):
        return jnp.stack([a + 0 * x[0], 0 * x[0]])

    ball = pde.Obstacle(
        lambda x: jnp.hypot(x[0] - 0.5, x[1] - 0.5) - a / 2, penalization_time=0.1
    )
    walls = (pde.Inflow(enters), pde.Outflow()), pde.NoSlip()
    return pde.IncompressibleFlow(0.1, pde.Grid((6, 6)), walls, obstacle=ball)


CLOSED = {
    "Heun": (heat, ds.Method(diffrax.Heun(), step=1e-3)),
    "CFL": (heat, ds.Method(integrators.SSPRK3(), controller=pde.CFL())),
    "CFL by default": (smoke, None),
    "Leapfrog": (string, ds.Method(integrators.Leapfrog(), step=1e-3)),
    "flow": (pipe, ds.Method(diffrax.Heun(), step=1e-3)),
}


@pytest.mark.parametrize("name", first_plain(CLOSED))
def test_functions_may_close_over_what_is_differentiated_and_batched(name):
    """As users write them, outside of jit: their steps are not known then."""
    made, method = CLOSED[name]

    def total(a):
        return jnp.sum(ds.simulate(made(a), 2e-3, method).states ** 2)

    compiled = jax.jit(jax.grad(total))(0.7)
    np.testing.assert_allclose(jax.grad(total)(0.7), compiled, rtol=1e-10)
    both = jax.vmap(total)(jnp.array([0.7, 0.8]))
    np.testing.assert_allclose(both, [total(0.7), total(0.8)], rtol=1e-12)


SOLVERS = {
    "ETDRK4": integrators.ETDRK4(),
    "ARS222": integrators.ARS222(),
    "Heun": diffrax.Heun(),
    "ARS443": integrators.ARS443(),
    "ETDRK2": integrators.ETDRK2(),
    "KenCarp4": integrators.KenCarp4(),
}


@pytest.mark.parametrize("name", first_plain(SOLVERS, 2))
def test_stability_limit_is_where_runs_amplify_short_waves(name):
    """By 2 % a step, which runs measure; limits are found to a sixteenth."""
    solver, steps = SOLVERS[name], 20
    found = warned(stream(), solver, 1.0)
    assert found is not None
    limit, advised = found
    np.testing.assert_allclose(advised, limit / 2, rtol=0.06)
    assert warned(stream(), solver, 0.99 * limit) is None

    def growth(step):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            end = ds.simulate(stream(), steps * step, ds.Method(solver, step=step))
        before, after = (
            jnp.abs(jnp.fft.rfft(u[0])[10]) for u in (stream().initial, end.states)
        )
        return (after / before) ** (1 / steps)

    assert growth(0.95 * limit) < 1.02 < growth(1.1 * limit)


def soliton(step_ratio, sign=1.0):
    """A soliton in water, a step of it, and how long 10⁵ steps last."""
    ring = pde.Grid(128, 0.0, 20.0)
    law = pde.KortewegDeVries(6 * sign, sign)
    wave = pde.Evolution(law, lambda x: 2 / jnp.cosh(x[0] - 10) ** 2, ring)
    step = step_ratio * (20 / 128) / 12
    return wave, ds.Method(integrators.ETDRK4(), step, max_steps=10**6), 1e5 * step


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_small_growth_warns_where_it_adds_up(sign):
    """Whichever way waves go, mirrored they are the same."""
    water, method, duration = soliton(0.38, sign)
    with pytest.warns(UserWarning, match="with them what is conserved"):
        assert water.check_method(method, duration)
    assert not water.check_method(method, 0.02 * duration)
    good, method, duration = soliton(0.25, sign)
    assert not good.check_method(method, duration)


@pytest.mark.slow
def test_what_is_conserved_grows_where_it_warns_and_stays_where_not():
    ends = {}
    for step_ratio in (0.25, 0.38):
        water, method, duration = soliton(step_ratio)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ds.simulate(water, [0.0, duration], method, throw=False)
        before, after = pde.energy(water, run.states)
        ends[step_ratio] = abs(after / before - 1)
    assert ends[0.25] < 1e-4
    assert not ends[0.38] < 0.1


def test_physically_growing_waves_do_not_warn():
    grid = pde.Grid(64, 0.0, 32 * np.pi)
    start = 0.01 * jnp.sin(grid.centers[0] / 16)
    flames = pde.Evolution(pde.KuramotoSivashinsky(), start, grid)
    assert warned(flames, integrators.ETDRK4(), 1.0) is None


@pytest.mark.parametrize("name", first_plain(["ETDRK4", "KenCarp4"]))
def test_long_steps_of_periodic_flows_warn_with_stable_step(name):
    found = warned(swirls(), SOLVERS[name], 1.0)
    assert found is not None
    assert warned(swirls(), SOLVERS[name], found[1]) is None


def test_long_steps_warn_inside_traced_functions():
    """What is simulated is known, what is multiplied is not."""
    box, method = swirls(), ds.Method(SOLVERS["KenCarp4"], step=1.0)

    @jax.jit
    def scaled(factor):
        return factor * ds.simulate(box, 1.0, method, throw=False).states

    with pytest.warns(UserWarning, match="KenCarp4 becomes unstable"):
        jax.eval_shape(scaled, 2.0)


def test_moving_lid_limits_steps_of_fluid_at_rest():
    found = warned(cavity(), SOLVERS["KenCarp4"], 1.0)
    assert found is not None
    assert warned(cavity(), SOLVERS["KenCarp4"], found[1]) is None


def test_implicit_friction_does_not_limit_steps():
    creeping = cavity(1.0)
    assert warned(creeping, SOLVERS["KenCarp4"], 1.0) is None
    assert warned(creeping, SOLVERS["Heun"], 1.0) is not None


def test_fully_implicit_steps_do_not_warn():
    assert warned(swirls(), integrators.Kvaerno3(), 1.0) is None


def test_friction_limits_explicit_steps_in_fourier_space():
    """Whose limit of decay, and no other, is that of Heun's method, 2."""
    law = pde.KuramotoSivashinsky(
        second_order_coefficient=-1.0, fourth_order_coefficient=0.0
    )
    slow = pde.Evolution(law, 1e-3 * jnp.sin(GRID.centers[0]), GRID)
    found = warned(slow, SOLVERS["Heun"], 0.1)
    assert found is not None
    np.testing.assert_allclose(found[0], 2 / 16**2, rtol=0.07)


def test_diffusion_in_fourier_space_has_its_own_stability_limit():
    """π²D/Δx² instead of 4D/Δx²."""
    heat = pde.Evolution(
        pde.Diffusion(0.5), jnp.sin(GRID.centers[0]), GRID, discretization=pde.Fourier()
    )
    fastest = 0.5 * 16**2
    np.testing.assert_allclose(pde.cfl_time_step(heat, 1.0), 2 / fastest, rtol=1e-12)
    found = warned(heat, SOLVERS["Heun"], 1.0)
    assert found is not None
    np.testing.assert_allclose(found[0], 2 / fastest, rtol=0.07)
    assert warned(heat, SOLVERS["ETDRK4"], 1.0) is None


def test_long_steps_of_forward_euler_warn():
    heat = pde.Evolution(pde.Diffusion(0.5), jnp.sin(GRID.centers[0]), GRID)
    limit = 2 / (0.5 * 4 * (32 / (2 * np.pi)) ** 2)
    assert warned(heat, diffrax.Euler(), 0.99 * limit) is None
    found = warned(heat, diffrax.Euler(), 1.01 * limit)
    assert found is not None
    np.testing.assert_allclose(found, (limit, limit / 2), rtol=0.02)


@pytest.mark.parametrize("damping", [None, 100.0])
@pytest.mark.parametrize("name", first_plain(["Heun", "SSPRK3", "Tsit5"]))
def test_waves_grow_beyond_limit_and_not_at_advised_step(name, damping):
    """Of explicit steps, which have to resolve damping as well."""
    solver = integrators.SSPRK3() if name == "SSPRK3" else getattr(diffrax, name)()
    noise = jax.random.normal(jax.random.key(0), (2, 32))
    law = pde.Wave(1.0, damping=damping)
    string = pde.Evolution(law, noise, GRID, pde.Dirichlet())
    found = warned(string, solver, 1.0)
    assert found is not None

    def height(step):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = ds.Method(solver, step)
            # Beyond the limit it is `RESULTS.unstable_steps`.
            run = ds.simulate(string, 100 * step, method, throw=False)
        return jnp.max(jnp.abs(run.states[0]))

    assert height(found[1]) < 10
    assert height(1.5 * found[0]) > 100
    assert warned(string, integrators.Leapfrog(), 0.1) is None


def test_advection_speeds_in_fourier_space_match_closed_forms():
    """u = sin x cos y, v = −cos x sin y: together fastest where both are a half."""
    x, y = swirls().grid.centers
    both = jnp.max(jnp.abs(jnp.sin(x) * jnp.cos(y)) + jnp.abs(jnp.cos(x) * jnp.sin(y)))
    step = 2 * np.pi / 32
    np.testing.assert_allclose(pde.cfl_time_step(swirls(), 1.0), step / both)
    crest = 1 + 0.5 * jnp.sin(GRID.centers[0])
    wave = pde.Evolution(pde.KortewegDeVries(advection=-3.0), crest, GRID)
    np.testing.assert_allclose(
        pde.cfl_time_step(wave, 1.0), step / (3 * jnp.max(crest)), rtol=1e-12
    )
    law = pde.KuramotoSivashinsky(potential=True)
    front = pde.Evolution(law, jnp.sin(2 * GRID.centers[0]), GRID)
    steepest = 2 * jnp.max(jnp.abs(jnp.cos(2 * GRID.centers[0])))
    np.testing.assert_allclose(pde.cfl_time_step(front, 1.0), step / steepest)


def test_cfl_steps_warn_where_friction_is_explicit():
    """CFL of modes counts what carries; and CFL above one where all is counted."""
    law = pde.NavierStokesVorticity(0.1)
    thick = pde.Evolution(law, swirls().initial, swirls().grid)
    method = ds.Method(diffrax.Heun(), controller=pde.CFL(0.5))
    with pytest.warns(
        UserWarning, match=r"first step of CFL\(courant_number=0.5\) is longer"
    ):
        thick.check_method(method)
    assert warned(swirls(), integrators.SSPRK3(), 0.1) is None
    swirls().check_method(ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.5)))
    gas = pde.Evolution(pde.Burgers(), 1.5 + jnp.sin(GRID.centers[0]), GRID)
    gas.check_method(ds.Method(diffrax.Heun(), controller=pde.CFL(0.9)))
    with pytest.warns(UserWarning, match="take a fixed step of 0.039, or controller"):
        gas.check_method(ds.Method(diffrax.Heun(), controller=pde.CFL(1.1)))


@pytest.mark.slow
def test_imex_steps_follow_advection_in_fourier_space():
    method = ds.Method(integrators.KenCarp4(), controller=pde.CFL(0.5))
    run = ds.simulate(swirls(), 0.5, method)
    fixed = ds.simulate(swirls(), 0.5, ds.Method(integrators.ETDRK4(), step=0.02))
    np.testing.assert_allclose(run.states, fixed.states, atol=1e-6)
    first = pde.cfl_time_step(swirls(), 0.5)
    np.testing.assert_allclose(np.asarray(run.steps)[0], first, rtol=1e-12)
