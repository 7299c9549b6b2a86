"""Parameters that must be positive are checked, concrete and traced."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


_GRID = pde.Grid((8, 8))
_WAVE = jnp.sin(2 * np.pi * _GRID.centers[0])
_SENTENCE = "A parameter that must be positive"
_IMPROPER = ds.RESULTS.invalid_parameter

# Equation by its coefficient, and how many channels it has on a plane.
_EQUATIONS = {
    "Diffusion": (pde.Diffusion, 1),
    "FisherKPP": (pde.FisherKPP, 1),
    "AllenCahn": (pde.AllenCahn, 1),
    "GrayScott": (lambda c: pde.GrayScott(0.04, 0.06, (2e-5, c)), 2),
    "AdvectionDiffusion": (lambda c: pde.AdvectionDiffusion(c, (1.0, 0.0)), 1),
    "Burgers": (pde.Burgers, 1),
    "NavierStokesVorticity": (pde.NavierStokesVorticity, 1),
    "NavierStokesVelocity": (pde.NavierStokesVelocity, 2),
    "CahnHilliard": (lambda c: pde.CahnHilliard(1.0, c), 1),
    "Wave": (pde.Wave, 2),
    "Schrodinger": (lambda c: pde.Schrodinger(mass=c), 2),
    "ShallowWater": (pde.ShallowWater, 3),
    "Euler": (lambda c: pde.Euler(1 + c), 4),
}
_FIELDS = ("Diffusion", "Wave", "Burgers")


@eqx.filter_jit
def proper(name, coefficient, length=1.0):
    make, channels = _EQUATIONS[name]
    initial = jnp.stack([2 + _WAVE] * channels)
    grid = pde.Grid((8, 8), 0.0, length)
    return pde.Evolution(make(coefficient), initial, grid).is_valid()


@pytest.mark.parametrize("name", _EQUATIONS)
def test_sign_is_checked_for_concrete_and_traced_values(name):
    found = [bool(proper(name, np.array(c))) for c in (0.1, -0.1, np.nan)]
    assert found == [True, False, False]
    with pytest.raises(ValueError, match=r"must (be positive|not be negative), got"):
        _EQUATIONS[name][0](-0.1)
    if name in _FIELDS:
        assert not proper(name, np.where(_WAVE > 0.9, -0.1, 0.1))


@pytest.mark.parametrize("name", _EQUATIONS)
def test_sign_is_checked_where_other_parameters_are_traced(name):
    assert proper(name, 0.1, length=np.array(2.0))


def heat(diffusivity):
    equation = pde.Diffusion(diffusivity)
    plate = pde.Evolution(equation, _WAVE, _GRID, discretization=pde.Fourier())
    return ds.simulate(plate, 0.1, ds.Method(integrators.ETDRK2(), 0.05))


def test_invalid_parameter_raises_from_compiled_run():
    with pytest.raises(Exception, match=_SENTENCE):
        jax.jit(lambda d: heat(d).states)(-1e-3)


def test_replaced_coefficient_is_checked():
    plate = pde.Evolution(pde.Diffusion(0.1), _WAVE, _GRID)
    wrong = eqx.tree_at(lambda p: p.equation.diffusivity, plate, jnp.asarray(-1e-3))
    with pytest.raises(RuntimeError, match=_SENTENCE):
        ds.simulate(wrong, 0.1)


@pytest.mark.slow
def test_invalid_member_of_a_sweep_has_status_and_nan():
    plate = pde.Evolution(pde.Diffusion(0.1), _WAVE, _GRID)
    over = {"equation.diffusivity": np.array([0.1, -1e-3, 0.2])}
    swept = ds.sweep(lambda plate: ds.simulate(plate, 0.1), plate, over)
    named = swept.status == _IMPROPER
    np.testing.assert_array_equal(named, [False, True, False])
    finite = np.isfinite(swept.outputs.states)
    assert np.all(finite[::2])
    assert not np.any(finite[1])


def test_derivatives_of_invalid_parameters_are_nan():
    with ds.simulations.failures_as_nan():
        slopes = jax.jit(
            lambda d: [
                of(lambda d: heat(d).states)(d) for of in (jax.jacfwd, jax.jacrev)
            ]
        )
        assert np.all(np.isnan(slopes(-1e-3)))


def test_zero_diffusivity_is_valid_where_optional():
    carried = pde.AdvectionDiffusion(0.0, (1.0, 0.0))
    assert pde.Evolution(carried, _WAVE, _GRID).is_valid()
    assert pde.Evolution(pde.Burgers(None), _WAVE, _GRID).is_valid()


def flow(viscosity, time, radius=0.2):
    cylinder = pde.Obstacle(pde.Ball((0.5, 0.5), radius), penalization_time=time)
    walls = (pde.NoSlip(), (pde.NoSlip(), pde.NoSlip((1.0, 0.0))))
    return pde.IncompressibleFlow(viscosity, _GRID, walls, obstacle=cylinder)


def test_flow_checks_viscosity_penalization_and_radius():
    proper = jax.jit(lambda *given: flow(*given).is_valid())
    cases = (0.0, 0.1, 0.2), (-0.1, 0.1, 0.2), (0.1, -0.1, 0.2), (0.1, 0.1, -0.2)
    assert [bool(proper(*case)) for case in cases] == [True, False, False, False]


@pytest.mark.slow
def test_steady_state_of_invalid_parameters_fails():
    def found(diffusivity):
        heated = pde.Diffusion(diffusivity, 1.0)
        rod = pde.Evolution(heated, jnp.zeros(8), pde.Grid(8), pde.Dirichlet(0.0))
        steady = pde.steady_state_solution(rod, throw=False)
        return steady.value, steady.status

    @jax.jit
    def with_slope(diffusivity):
        value, pull, status = jax.vjp(found, diffusivity, has_aux=True)
        return value, status, pull(jnp.ones_like(value))[0]

    value, status, slope = with_slope(-1.0)
    assert status == _IMPROPER
    assert np.all(np.isnan(value))
    assert np.isnan(slope)


@pytest.mark.parametrize("upper", first_plain([-1.0, np.nan, 0.0, np.inf], 2))
def test_grid_with_reversed_corners_is_invalid(upper):
    """Of a run, a flow, a steady state and an elliptic problem."""

    @jax.jit
    def found(upper):
        grid = pde.Grid((8, 8), 0.0, upper)
        plate = pde.Evolution(pde.Diffusion(0.1), _WAVE, grid, pde.Neumann(1.0))
        method = ds.Method(integrators.SSPRK3(), 0.001)
        run = ds.simulate(plate, 0.002, method, throw=False)
        walls = pde.Domain(grid, pde.Robin(1.0, 1.0, 1.0))
        held = pde.poisson_solution(_WAVE, walls, throw=False)
        moving = pde.IncompressibleFlow(0.1, grid, pde.NoSlip())
        statuses = jnp.stack(
            [jnp.asarray(s == _IMPROPER) for s in (run.result, held.status)]
        )
        return (run.states, held.value), statuses, moving.is_valid()

    values, named, proper = found(upper)
    assert np.all(named) and not proper
    assert all(np.all(np.isnan(value)) for value in values)
    values, named, proper = found(2.0)
    assert not np.any(named) and proper
    assert all(np.all(np.isfinite(value)) for value in values)


def test_run_of_invalid_parameters_is_nan_where_nothing_raises():
    def total(diffusivity):
        plate = pde.Evolution(pde.Diffusion(diffusivity), _WAVE, _GRID)
        method = ds.Method(integrators.SSPRK3(), 0.001)
        return jnp.sum(ds.simulate(plate, 0.002, method, throw=False).states ** 2)

    each = jnp.array([0.1, -0.1, jnp.nan])
    for values in (jax.vmap(total)(each), jax.vmap(jax.grad(total))(each)):
        np.testing.assert_array_equal(np.isnan(values), [False, True, True])


def test_one_improper_cell_makes_a_run_invalid():
    """Whatever its mean with a proper one is on the faces."""

    @jax.jit
    def outcome(D):
        run = pde.Evolution(pde.Diffusion(D), jnp.ones(8), pde.Grid(8), pde.Neumann())
        return ds.simulate(run, 0.1, throw=False).result

    assert outcome(jnp.ones(8).at[3].set(-0.1)) == _IMPROPER
    assert outcome(jnp.ones(8)) == ds.RESULTS.successful
