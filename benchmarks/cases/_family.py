"""Many systems of five bodies that differ in one mass, for `sweep` and for REBOUND."""

from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds
from diffsim import integrators
from diffsim.sweeps import Sweep, sweep

from .._harness import deviation
from .._peers import integrate, states_at
from . import _five_bodies as five


def family(systems: int) -> np.ndarray:
    """Masses of the planet that differs."""
    return five.MASSES[1] * np.linspace(0.8, 1.2, systems)


def sweeping(masses: np.ndarray, times: np.ndarray) -> Callable[[], Sweep]:
    """One whole call of `sweep`, from values to NumPy arrays."""
    model = five.system(five.start())
    method = ds.Method(integrators.Leapfrog(), step=five.STEP)

    def predict(model):
        return ds.simulate(model, times, method).states

    return lambda: sweep(predict, model, {"bodies.masses[1]": masses})


def looping(masses: np.ndarray, times: np.ndarray) -> Callable[[], Callable[[], Any]]:
    """REBOUND's turn: one system after the other; making them is not timed."""

    def prepare():
        simulations = [five.rebound(five.start(mass)) for mass in masses]
        return lambda: [integrate(one, times) for one in simulations]

    return prepare


def worst(found: Sweep, masses: np.ndarray, times: np.ndarray) -> float:
    """Deviation from REBOUND of the worst of the first systems, which have `masses`."""
    x, v = found.outputs.positions, found.outputs.velocities
    return max(
        deviation((x[i], v[i]), states_at(five.rebound(five.start(mass)), times))
        for i, mass in enumerate(masses)
    )
