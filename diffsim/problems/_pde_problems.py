"""Small runs of every equation, in which every number acts: tests import them, too."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import pde
from ..simulations import AbstractSimulation


def _walls():
    return (
        (pde.Dirichlet(0.3), pde.Neumann(0.2)),
        (pde.Robin(1.0, 0.4, 0.1), pde.Outflow()),
    )


def _line():
    return pde.Grid(6, 0.1, 1.3)


def _plate():
    return pde.Grid((4, 5), (0.0, 0.1), (1.0, 1.2))


def _ring():
    return pde.Grid(8, 0.0, 9.0)


def _torus():
    return pde.Grid((6, 5), 0.0, 3.0)


class _Melting(eqx.Module):
    """D(u) = a + b u², positive."""

    a: Array
    b: Array

    def __call__(self, t, x, u):
        return self.a + self.b * u**2


def _field(grid, channels=1, seed=0):
    """Between a half and one: densities and depths, too."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.5, 1, (channels, *grid.shape)))


def _evolution(equation, grid, *walls, **options):
    start = _field(grid, equation.channels(grid.ndim))
    return pde.Evolution(equation, start, grid, *walls, **options)


def _body():
    plate = _plate()
    x, y = plate.centers
    return _evolution(pde.Diffusion(0.1 + 0.05 * x, 0.2 * y), plate, _walls())


def _melting_body():
    law = pde.Diffusion(_Melting(jnp.asarray(0.1), jnp.asarray(0.2)))
    return _evolution(law, _plate(), _walls())


def _populations():
    plate = _plate()
    capacity = _field(plate, seed=1)[0]
    return _evolution(pde.FisherKPP(0.1 * capacity, 0.9, capacity), plate, _walls())


def _smoke():
    plate = _plate()
    law = pde.AdvectionDiffusion(0.02, (0.7, -0.3), source=0.2 * plate.centers[1])
    return _evolution(law, plate, _walls())


def _gas():
    # Limiters have kinks where a field is constant, along one axis say: none is.
    law, plate = pde.Euler(1.4), _plate()
    density, u, v, pressure = _field(plate, 4)
    start = law.state(density, jnp.stack([u, v]) - 0.75, pressure)
    above = pde.Inflow(jnp.array([1.1, 0.2, 0.1, 2.6]))
    walls = ((pde.ReflectingWall(), pde.Outflow()), (pde.ReflectingWall(), above))
    return pde.Evolution(law, start, plate, walls)


def _water():
    upstream, line = pde.Inflow(jnp.array([1.1, 0.4])), _line()
    law = pde.ShallowWater(9.81, 0.2 * jnp.cos(6 * line.centers[0]))
    return _evolution(law, line, ((upstream, pde.ReflectingWall()),))


def _wave_function():
    ring = _ring()
    return _evolution(pde.Schrodinger(0.3 * ring.centers[0]), ring)


def _waves():
    plate = _plate()
    damping = pde.absorbing_layer(plate, 0.5, 3.0)
    return _evolution(pde.Wave(1 + plate.centers[0] / 3, damping), plate, _walls())


def _stream():
    body = pde.Obstacle(
        pde.Ball((0.5, 0.4), 0.3), penalization_time=0.1, mask_width=0.2
    )
    walls = ((pde.Inflow((1.0, 0.2)), pde.Outflow()), pde.NoSlip())
    return pde.IncompressibleFlow(0.1, _plate(), walls, obstacle=body)


def _on(place: Callable[[], pde.Grid], law: Callable[[], Any], *walls: int, **options):
    """A law on a place, between walls of one or both axes if any."""

    def made():
        sides = [tuple(_walls()[i] for i in walls)] if walls else []
        return _evolution(law(), place(), *sides, **options)

    return made


PDE_PROBLEMS: dict[str, Callable[[], AbstractSimulation]] = {
    "heat": _body,
    "heat in Fourier space": _on(
        _ring, lambda: pde.Diffusion(0.1), discretization=pde.Fourier()
    ),
    "nonlinear heat": _melting_body,
    "Fisher-KPP": _populations,
    "Allen-Cahn": _on(_plate, lambda: pde.AllenCahn(0.1, 1.3), 0, 1),
    "Gray-Scott": _on(_line, lambda: pde.GrayScott(0.3, 0.2, (0.1, 0.2))),
    "advection-diffusion": _smoke,
    "Burgers": _on(_line, lambda: pde.Burgers(0.01), 0),
    "Euler": _gas,
    "shallow water": _water,
    "Korteweg-de Vries": _on(_ring, pde.KortewegDeVries),
    "Kuramoto-Sivashinsky": _on(_ring, pde.KuramotoSivashinsky),
    "Cahn-Hilliard": _on(
        _ring, lambda: pde.CahnHilliard(0.3, 0.9, linearized_about=1.0)
    ),
    "vorticity": _on(_torus, lambda: pde.NavierStokesVorticity(0.1, drag=0.2)),
    "velocity": _on(_torus, lambda: pde.NavierStokesVelocity(0.1, drag=0.2)),
    "Schrodinger": _wave_function,
    "waves": _waves,
    "incompressible flow": _stream,
    # Solved for without iterations.
    "heat in 1D": _on(_line, lambda: pde.Diffusion(0.1), 0),
    "Fisher-KPP in 1D": _on(_line, lambda: pde.FisherKPP(0.1, 0.9), 1),
}
