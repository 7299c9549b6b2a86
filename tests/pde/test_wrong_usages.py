"""What someone new to diffsim would try, answered in one sentence."""

import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde


_LINE, _PLANE = pde.Grid(16), pde.Grid((8, 8))
_ONE, _SHEET = jnp.ones(16), jnp.ones((8, 8))
_STEPS = ds.Method(integrators.SSPRK3(), 0.001)


def heat(equation=None, initial=_ONE, grid=_LINE, boundary=None, **options):
    equation = pde.Diffusion(0.1) if equation is None else equation
    return pde.Evolution(equation, initial, grid, boundary, **options)


def run(equation=None, boundary=None):
    return ds.simulate(heat(equation, boundary=boundary), 0.002, _STEPS)


def fed(source):
    return run(pde.Diffusion(0.1, source=source))


def evolve(equation, fields=1, grid=_LINE, boundary=None):
    initial = jnp.ones((fields, *grid.shape))
    return pde.Evolution(equation, initial, grid, boundary)


def flow(walls=None, viscosity=0.1, grid=_PLANE, **options):
    walls = pde.NoSlip() if walls is None else walls
    return pde.IncompressibleFlow(viscosity, grid, walls, **options)


def switched(t, x):
    return 1.0 if t < 0.5 else 0.0


_NS = pde.NavierStokesVorticity(0.1)
_WALLED = pde.Domain(_LINE, pde.Dirichlet(0.0))
_JNP, _WHERE = "jax.numpy", "jnp.where"
_ROWS = {
    "NavierStokesVorticity between NoSlip": (
        lambda: evolve(_NS, 1, _PLANE, pde.NoSlip()),
        "IncompressibleFlow",
    ),
    "NavierStokesVorticity between walls": (
        lambda: evolve(_NS, 1, _PLANE, pde.Dirichlet()),
        "IncompressibleFlow",
    ),
    "velocity for vorticity": (lambda: evolve(_NS, 2, _PLANE), "pde.curl"),
    "vorticity for velocity": (
        lambda: evolve(pde.NavierStokesVelocity(0.1), 1, _PLANE),
        "pde.NavierStokesVorticity",
    ),
    "one field for a wave": (lambda: evolve(pde.Wave(1.0)), "velocity"),
    "one field for psi": (lambda: evolve(pde.Schrodinger()), "imaginary"),
    "one field for a gas": (lambda: evolve(pde.Euler()), "Euler.state"),
    "one field for water": (lambda: evolve(pde.ShallowWater()), "h \\* v"),
    "length for lower": (lambda: pde.Grid(64, 2 * np.pi), "shape, lower, upper"),
    "pair for lower": (lambda: pde.Grid(64, (0.0, 1.0)), "shape, lower, upper"),
    "points for cells": (lambda: pde.Grid(np.linspace(0, 1, 64)), "positive ints"),
    "class Periodic": (lambda: heat(boundary=pde.Periodic), "Periodic\\(...\\)"),
    "classes of sides": (
        lambda: heat(boundary=(pde.Dirichlet, pde.Neumann)),
        "Dirichlet\\(...\\)",
    ),
    "class NoSlip": (lambda: flow(pde.NoSlip), "NoSlip\\(...\\)"),
    "name of a boundary": (lambda: heat(boundary="periodic"), "pde.Periodic"),
    "number for a boundary": (lambda: heat(boundary=0.0), "pde.Dirichlet"),
    "half periodic": (
        lambda: heat(boundary=(pde.Periodic(), pde.Dirichlet())),
        "both",
    ),
    "three sides": (lambda: heat(boundary=3 * (pde.Dirichlet(),)), "each of 1 axes"),
    "Dirichlet for a flow": (lambda: flow(pde.Dirichlet()), "pde.NoSlip"),
    "flow on a line": (lambda: flow(grid=_LINE), "two or three axes"),
    "NumPy source": (lambda: fed(lambda t, x, u: np.cos(np.asarray(u))), _JNP),
    "math source": (lambda: fed(lambda t, x, u: math.sin(t)), _JNP),
    "if in a source": (lambda: fed(lambda t, x, u: switched(t, x)), _WHERE),
    "u[u > 0] in a source": (lambda: fed(lambda t, x, u: u[u > 0]), _WHERE),
    "math coefficient": (
        lambda: run(pde.Diffusion(lambda t, x, u: math.exp(t))),
        _JNP,
    ),
    "math at a wall": (
        lambda: run(boundary=pde.Dirichlet(lambda t, x: math.sin(t))),
        _JNP,
    ),
    "if at a wall": (lambda: run(boundary=pde.Neumann(switched)), _WHERE),
    "if in a velocity": (lambda: run(pde.AdvectionDiffusion(0.1, switched)), _WHERE),
    "math forcing": (lambda: flow(forcing=lambda t, x: math.sin(t)), _JNP),
    "if at an inflow": (
        lambda: flow(((pde.Inflow(switched), pde.Outflow()), pde.NoSlip())),
        _WHERE,
    ),
    "NumPy speed": (
        lambda: ds.simulate(evolve(pde.Wave(lambda x: np.asarray(x) + 2), 2), 0.1),
        _JNP,
    ),
    "another length": (lambda: heat(initial=jnp.ones(17)), "\\(1, 16\\)"),
    "complex field": (lambda: heat(initial=1j * _ONE), "real"),
    "field of conditions": (lambda: heat(initial=_ONE > 0), "real"),
    "initial of (x, y)": (lambda: heat(initial=lambda x, y: x), "lambda x"),
    "NaN field": (lambda: heat(initial=_ONE.at[3].set(jnp.nan)), "finite"),
    "NaN flow": (lambda: flow(initial=jnp.full((2, 8, 8), jnp.nan)), "finite"),
    "NaN of a function": (lambda: heat(initial=lambda x: jnp.log(x - 0.5)), "finite"),
    "NaN of a function of a flow": (
        lambda: flow(initial=lambda x: jnp.log(x - 0.5)),
        "initial must be finite",
    ),
    "NaN of a module of a flow": (
        lambda: flow(initial=jax.tree_util.Partial(jnp.add, jnp.nan)),
        "initial must be finite",
    ),
    "negative diffusivity": (lambda: pde.Diffusion(-1.0), "positive"),
    "negative viscosity": (lambda: flow(viscosity=-0.1), "negative"),
    "source of another length": (
        lambda: fed(lambda t, x, u: jnp.ones(17)),
        "source must",
    ),
    "source of x": (lambda: pde.Diffusion(0.1, source=lambda x: x), "t, x, u"),
    "wall of x": (lambda: pde.Dirichlet(lambda x: x), "t, x"),
    "wall of another length": (
        lambda: evolve(pde.Diffusion(0.1), 1, _PLANE, pde.Dirichlet(jnp.ones(9))),
        "axis 0",
    ),
    "array of steps": (
        lambda: ds.simulate(heat(), 1.0, ds.Method(integrators.SSPRK3(), _ONE)),
        "Python number",
    ),
    "poisson on a grid": (lambda: pde.poisson(_ONE, _LINE), "pde.Domain"),
    "poisson of another length": (lambda: pde.poisson(jnp.ones(17), _WALLED), "shape"),
    "negative density": (
        lambda: pde.Evolution(pde.Euler(), jnp.stack([-_ONE, 0 * _ONE, _ONE]), _LINE),
        "positive density",
    ),
    "negative pressure": (
        lambda: pde.Evolution(pde.Euler(), jnp.stack([_ONE, 0 * _ONE, -_ONE]), _LINE),
        "positive pressure",
    ),
    "class of an equation": (lambda: heat(pde.Diffusion), "the class Diffusion"),
    "swapped": (lambda: pde.Evolution(_ONE, pde.Diffusion(0.1), _LINE), "equation"),
}


@pytest.mark.parametrize(("call", "words"), _ROWS.values(), ids=list(_ROWS))
def test_wrong_usage_raises_with_advice(call, words, monkeypatch):
    # As users have it: tests check annotations before anything else.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=words):
        call()


def test_unstable_steps_warn():
    method = ds.Method(integrators.SSPRK3(), 0.1)
    with pytest.warns(UserWarning, match="unstable"):
        ds.simulate(heat(), 0.1, method)


def test_initial_function_is_evaluated_at_cell_centers():
    x, y = _PLANE.centers
    made = heat(initial=lambda x: jnp.sin(x[0]) * x[1], grid=_PLANE)
    np.testing.assert_array_equal(made.initial, (jnp.sin(x) * y)[None])
    pair = pde.Evolution(pde.Wave(1.0), lambda x: jnp.stack([x[0], 0 * x[0]]), _LINE)
    np.testing.assert_array_equal(pair.initial[0], _LINE.centers[0])
    np.testing.assert_array_equal(heat(initial=lambda x: 2.0).initial, 2.0)
    with pytest.raises(ValueError, match="velocity"):
        pde.Evolution(pde.Wave(1.0), lambda x: x[0], _LINE)


def test_closure_of_initial_function_is_differentiated():
    def total(a):
        return jnp.sum(heat(initial=lambda x: a * x).initial)

    np.testing.assert_allclose(jax.grad(total)(2.0), 8.0, rtol=1e-6)


def test_energies_of_gas_and_water_match_closed_forms():
    gas = pde.Euler(1.4)
    tube = pde.Evolution(gas, gas.state(2.0 * _ONE, 3.0, 0.8), _LINE)
    np.testing.assert_allclose(pde.energy(tube, tube.initial), 2 + 9, rtol=1e-6)
    lake = pde.Evolution(pde.ShallowWater(10.0, 0.5), jnp.ones((2, 16)) * 2, _LINE)
    np.testing.assert_allclose(pde.energy(lake, lake.initial), 31.0, rtol=1e-6)


def test_periodic_gas_conserves_energy():
    gas = pde.Euler(1.4)
    rho = 1 + 0.2 * jnp.sin(2 * jnp.pi * _LINE.centers[0])
    tube = pde.Evolution(gas, gas.state(rho, 1.0, 1.0), _LINE)
    last = ds.simulate(tube, 0.01, _STEPS).states
    energies = pde.energy(tube, tube.initial), pde.energy(tube, last)
    np.testing.assert_allclose(*energies, rtol=1e-12)
