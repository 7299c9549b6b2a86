"""The same call with a function, or a field, that holds another number."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, pde

from . import ours, problems


class Kind(NamedTuple):
    """An object made of a number, and the run that it goes into."""

    make: Callable[[float], Any]
    run: Callable[[Any], Any]


class Growth(pde.AbstractReactionDiffusion):
    """An equation of a user's own, with a Python number for a field."""

    rate_of_growth: float

    @property
    def diffusivities(self):
        return (0.01,)

    @property
    def nonlinearity_degree(self):
        return 2

    def reaction(self, t, x, u):
        return self.rate_of_growth * u * (1 - u)


_GRID = pde.Grid(32)
_START = np.sin(np.pi * (np.arange(32) + 0.5) / 32)


def _simulate_line(equation):
    run = pde.Evolution(equation, _START, _GRID, pde.Dirichlet(0.0))
    return ds.simulate(run, [0.1]).states


def _fit(predict, noise):
    data = np.log(problems.PELTS)
    found = ds.fit(predict, ours.lotka_volterra(), data, noise=noise)
    return found.values, found.stderr


def _event(condition):
    events = ds.simulations.Event(condition)
    times = np.linspace(0, 5, 10)
    return ds.simulate(ours.system(problems.MASSES), times, events=events).events[0]


KINDS = {
    "a source": Kind(
        lambda number: lambda t, x, u: number * x[0],
        lambda source: _simulate_line(pde.Diffusion(0.01, source)),
    ),
    "a noise": Kind(
        lambda number: lambda model: inference.Gaussian(0.2 * number),
        lambda noise: _fit(ours.populations, noise),
    ),
    "a predict": Kind(
        lambda number: lambda model: ours.populations(model) + jnp.log(number),
        lambda predict: _fit(predict, inference.Gaussian(problems.SIGMA)),
    ),
    "a condition": Kind(
        lambda number: (
            lambda t, state, simulation: state.positions[1, 1] - 0.3 * number
        ),
        lambda condition: _event(condition).times,
    ),
    "an equation's float": Kind(Growth, _simulate_line),
}
