"""Every equation, by its own method, has the derivative of what it computes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import taylor_test


WALLS = (
    (pde.Dirichlet(0.3), pde.Neumann(0.2)),
    (pde.Robin(1.0, 0.4, 0.1), pde.Outflow()),
)
LINE, PLATE = pde.Grid(6, 0.1, 1.3), pde.Grid((4, 5), (0.0, 0.1), (1.0, 1.2))
RING, TORUS = pde.Grid(8, 0.0, 9.0), pde.Grid((6, 5), 0.0, 3.0)


class Melting(eqx.Module):
    """D(u) = a + b u², positive."""

    a: jax.Array
    b: jax.Array

    def __call__(self, t, x, u):
        return self.a + self.b * u**2


def field(grid, channels=1, seed=0):
    """Between a half and one: densities and depths, too."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.5, 1, (channels, *grid.shape)))


def evolution(equation, grid, *walls, **options):
    start = field(grid, equation.channels(grid.ndim))
    return pde.Evolution(equation, start, grid, *walls, **options)


def body():
    x, y = PLATE.centers
    return evolution(pde.Diffusion(0.1 + 0.05 * x, 0.2 * y), PLATE, WALLS)


def melting_body():
    law = pde.Diffusion(Melting(jnp.asarray(0.1), jnp.asarray(0.2)))
    return evolution(law, PLATE, WALLS)


def populations():
    capacity = field(PLATE, seed=1)[0]
    return evolution(pde.FisherKPP(0.1 * capacity, 0.9, capacity), PLATE, WALLS)


def smoke():
    law = pde.AdvectionDiffusion(0.02, (0.7, -0.3), source=0.2 * PLATE.centers[1])
    return evolution(law, PLATE, WALLS)


def gas():
    # Limiters have kinks where a field is constant, along one axis say: none is.
    law = pde.Euler(1.4)
    density, u, v, pressure = field(PLATE, 4)
    start = law.state(density, jnp.stack([u, v]) - 0.75, pressure)
    above = pde.Inflow(jnp.array([1.1, 0.2, 0.1, 2.6]))
    walls = ((pde.Wall(), pde.Outflow()), (pde.Wall(), above))
    return pde.Evolution(law, start, PLATE, walls)


def water():
    upstream = pde.Inflow(jnp.array([1.1, 0.4]))
    law = pde.ShallowWater(9.81, 0.2 * jnp.cos(6 * LINE.centers[0]))
    return evolution(law, LINE, ((upstream, pde.Wall()),))


def wave_function():
    return evolution(pde.Schrodinger(0.3 * RING.centers[0]), RING)


def waves():
    damping = pde.absorbing_layer(PLATE, 0.5, 3.0)
    return evolution(pde.Wave(1 + PLATE.centers[0] / 3, damping), PLATE, WALLS)


def stream():
    body = pde.Obstacle(pde.Ball((0.5, 0.4), 0.3), time=0.1, width=0.2)
    walls = ((pde.Inflow((1.0, 0.2)), pde.Outflow()), pde.NoSlip())
    return pde.IncompressibleFlow(0.1, PLATE, walls, obstacle=body)


SYSTEMS = {
    "heat": body,
    "heat in modes": lambda: evolution(pde.Diffusion(0.1), RING, space=pde.Fourier()),
    "heat that melts": melting_body,
    "Fisher-KPP": populations,
    "Allen-Cahn": lambda: evolution(pde.AllenCahn(0.1, 1.3), PLATE, WALLS),
    "Gray-Scott": lambda: evolution(pde.GrayScott(0.3, 0.2, (0.1, 0.2)), LINE),
    "advection-diffusion": smoke,
    "Burgers": lambda: evolution(pde.Burgers(0.01), LINE, (WALLS[0],)),
    "Euler": gas,
    "shallow water": water,
    "Korteweg-de Vries": lambda: evolution(pde.KortewegDeVries(), RING),
    "Kuramoto-Sivashinsky": lambda: evolution(pde.KuramotoSivashinsky(), RING),
    "Cahn-Hilliard": lambda: evolution(pde.CahnHilliard(0.3, 0.9, about=1), RING),
    "vorticity": lambda: evolution(pde.NavierStokes(0.1, drag=0.2), TORUS),
    "Schrodinger": wave_function,
    "waves": waves,
    "incompressible flow": stream,
}


STEPPINGS = {
    "ETDRK2": ("heat in modes", integrators.ETDRK2()),
    "ETDRK4": ("vorticity", integrators.ETDRK4()),
    "KenCarp3": ("fronts on a line", integrators.KenCarp3()),
    "KenCarp4 solving for drag": ("incompressible flow", integrators.KenCarp4()),
    "Kvaerno3": ("a rod", integrators.Kvaerno3()),
    "ARS222": ("fronts on a line", integrators.ARS222()),
    "ARS443": ("fronts on a line", integrators.ARS443()),
    "CrankNicolson": ("a rod", integrators.CrankNicolson()),
    "SSPRK3": ("Burgers", integrators.SSPRK3()),
    "Leapfrog": ("waves", integrators.Leapfrog()),
    "Yoshida4": ("Schrodinger", integrators.Yoshida4()),
}


#: Solved for without iterations.
RODS = {
    "a rod": lambda: evolution(pde.Diffusion(0.1), LINE, (WALLS[0],)),
    "fronts on a line": lambda: evolution(pde.FisherKPP(0.1, 0.9), LINE, (WALLS[1],)),
}


def slopes_of(system, times, method):
    """A Taylor test of every leaf, at the steps that the method takes."""
    if method.adaptive:
        method = method.frozen(ds.simulate(system, times, method))
    return taylor_test(
        lambda system: ds.simulate(system, times, method, throw=False).states, system
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_equation_is_differentiated_right_by_its_own_method(name):
    system = SYSTEMS[name]()
    found = slopes_of(system, [0.01, 0.02], system.default_method())
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "dead" for leaf in found.leaves), found


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPPINGS)
def test_every_stepping_is_differentiated_right(name):
    system, solver = STEPPINGS[name]
    made = (SYSTEMS | RODS)[system]()
    found = slopes_of(made, [0.01, 0.02], ds.Method(solver, step=0.01))
    assert found.passed, found
    assert found.disagreement < 1e-10
