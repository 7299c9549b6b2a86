"""First runs of diffsim, written as its documentation writes them."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, integrators, nbody, pde

from . import problems


class LotkaVolterra(ds.AbstractSimulation):
    """Prey and predators."""

    rates: jax.Array
    populations: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.populations

    def terms(self):
        return diffrax.ODETerm(_growth)

    def default_method(self):
        return ds.Method(diffrax.Dopri5())


def _growth(t, y, simulation):
    del t
    birth, death, gain, loss = simulation.rates
    return jnp.stack([y[0] * (birth - death * y[1]), y[1] * (gain * y[0] - loss)])


def lotka_volterra() -> LotkaVolterra:
    """As many animals as there were pelts in 1900."""
    return LotkaVolterra(
        rates=jnp.asarray(problems.RATES), populations=jnp.asarray(problems.POPULATIONS)
    )


def populations(simulation: LotkaVolterra) -> Any:
    """The logarithms of both populations, year after year."""
    return jnp.log(ds.simulate(simulation, problems.YEARS).states)


def system(masses: Any) -> nbody.NBody:
    """Three bodies under gravity."""
    return nbody.NBody(nbody.Bodies(masses, problems.POSITIONS, problems.VELOCITIES))


def orbit() -> Any:
    """Positions of three bodies by the default method."""
    return _positions(problems.MASSES)


def orbit_and_jacobian() -> Any:
    """The same with their derivatives in the masses."""
    masses = jnp.asarray(problems.MASSES)
    return _positions(masses), jax.jacfwd(_positions)(masses)


def orbit_with_events() -> Any:
    """The same, with three events recorded."""
    conditions = (_height, _outer_height, _distance)
    events = tuple(ds.simulations.Event(condition) for condition in conditions)
    trajectory = ds.simulate(
        system(problems.MASSES), problems.ORBIT_TIMES, events=events
    )
    times = [found.times for found in trajectory.events]
    jax.block_until_ready(times)
    return trajectory.states.positions


def _positions(masses):
    return ds.simulate(system(masses), problems.ORBIT_TIMES).states.positions


def _height(t, state, simulation):
    return state.positions[1, 1]


def _outer_height(t, state, simulation):
    return state.positions[2, 1]


def _distance(t, state, simulation):
    between = state.positions[2] - state.positions[1]
    return between @ between - 4.0


def ode() -> Any:
    """Both populations by Dopri5."""
    return ds.simulate(lotka_volterra(), problems.YEARS).states


def fit() -> Any:
    """Rates and first populations from pelts, with their error bars."""
    found = ds.fit(
        populations,
        lotka_volterra(),
        np.log(problems.PELTS),
        noise=inference.Gaussian(problems.SIGMA),
    )
    return found.values, found.stderr


def plate() -> pde.Evolution:
    """A hot spot on a plate with four different walls."""
    grid = pde.Grid((problems.PLATE_CELLS, problems.PLATE_CELLS))
    x, y = grid.centers
    hot = jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    ends = pde.Dirichlet(problems.WARM), pde.Neumann(problems.INSULATED)
    walls = ends, pde.Robin(*problems.COOLED)
    return pde.Evolution(pde.Diffusion(problems.DIFFUSIVITY), hot, grid, walls)


def heat() -> Any:
    """The temperature of the plate by the default method."""
    return _temperature(plate())


def heat_gradient() -> Any:
    """Of the sum of its squares, in the first temperature and the diffusivity."""
    found = eqx.filter_grad(lambda p: jnp.sum(_temperature(p) ** 2))(plate())
    return found.initial, found.equation.diffusivity


def _temperature(simulation):
    return ds.simulate(simulation, problems.PLATE_TIMES).states


def kuramoto_sivashinsky() -> Any:
    """A flame front, after every step of ETDRK4."""
    grid = pde.Grid(problems.FLAME_POINTS, 0.0, problems.FLAME_LENGTH)
    (x,) = grid.centers
    start = jnp.sin(2 * np.pi * x / problems.FLAME_LENGTH)
    flame = pde.Evolution(pde.KuramotoSivashinsky(), start, grid)
    times = problems.FLAME_STEP * np.arange(1, problems.FLAME_STEPS + 1)
    method = ds.Method(integrators.ETDRK4(), step=problems.FLAME_STEP)
    return ds.simulate(flame, times, method).states


def navier_stokes() -> Any:
    """The last vorticity of a flow in a plane."""
    points, length = problems.FLOW_POINTS, problems.CIRCLE
    grid = pde.Grid((points, points), 0.0, length)
    x, y = grid.centers
    vorticity = jnp.sin(x) * jnp.cos(2 * y) + jnp.cos(3 * x + y)
    flow = pde.Evolution(pde.NavierStokesVorticity(problems.VISCOSITY), vorticity, grid)
    method = ds.Method(integrators.ETDRK4(), step=problems.FLOW_STEP)
    return ds.simulate(flow, problems.FLOW_STEPS * problems.FLOW_STEP, method).states


def burgers() -> Any:
    """A wave that steepens, by the default method in cells."""
    grid = pde.Grid(problems.SHOCK_POINTS, 0.0, problems.CIRCLE)
    (x,) = grid.centers
    wave = pde.Evolution(pde.Burgers(problems.SHOCK_VISCOSITY), jnp.sin(x), grid)
    return ds.simulate(wave, problems.SHOCK_STEPS * problems.SHOCK_STEP).states
