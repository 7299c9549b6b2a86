"""A simulation set up for the laws: its epoch held, its steps frozen."""

import dataclasses
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import PyTree
from ..simulations import AbstractSimulation, Method, Trajectory, simulate
from ._leaves import Leaves, float_outputs, random_directions


#: Neighbors differ by this fraction of the largest entry of each leaf.
_APART = 1e-3


@dataclasses.dataclass(frozen=True)
class Case:
    """Test problem: a simulation as the checks need it.

    - `simulation`: with `t0` a Python float; the epoch has a test of its own.
    - `times`: with a time axis.
    - `given`, `method`: the method, and the same with the steps of one run frozen.
    - `trajectory`: that run.
    - `leaves`: the float arrays of the simulation.
    - `eps`: machine epsilon of the states.
    """

    simulation: AbstractSimulation
    times: np.ndarray
    given: Method
    method: Method
    trajectory: Trajectory
    leaves: Leaves
    eps: float
    seed: int

    @classmethod
    def of(cls, simulation, times, method: Method | None, seed: int) -> Self:
        """Run the simulation once; raises where that fails."""
        given = simulation._checked_default_method() if method is None else method
        if eqx.is_array(simulation.t0):
            epoch = float(simulation.t0)
            simulation = eqx.tree_at(lambda s: s.t0, simulation, epoch)
        times = np.atleast_1d(np.asarray(times))
        trajectory = simulate(simulation, times, given)
        return cls(
            simulation,
            times,
            given,
            given.freeze_steps(trajectory),
            trajectory,
            Leaves.of(simulation),
            max(float(jnp.finfo(y.dtype).eps) for y in float_outputs(trajectory)),
            seed,
        )

    def states(self, values: list[Any]) -> list[Array]:
        """Observed states at other values of the leaves; failures are NaN or inf."""
        simulation = self.leaves.rebuild(values)
        return float_outputs(simulate(simulation, self.times, self.method, throw=False))

    def functional(self, values: list[Any]) -> Array:
        """Sums of states and of squares, with weights that differ entry by entry.

        A square alone has no derivative where a state is 0.
        """
        total = jnp.zeros(())
        for y, base in zip(
            self.states(values), float_outputs(self.trajectory), strict=True
        ):
            size = float(np.linalg.norm(np.asarray(base))) or 1.0
            weights = np.linspace(0.5, 1.5, y.size, dtype=y.real.dtype)
            y = y.reshape(-1) / size
            total = total + jnp.sum(weights * (jnp.abs(y) ** 2 + y.real))
            total = total + jnp.sum(weights[::-1] * y.imag)
        return total

    def neighbor(self, number: int) -> list[Array]:
        """Values of the leaves near those of the simulation."""
        moves = self.directions(_APART, number)
        return [
            x + jnp.asarray(d) for x, d in zip(self.leaves.values, moves, strict=True)
        ]

    def directions(self, size: float, number: int) -> list[np.ndarray]:
        """Random changes of all leaves, at most `size` times their largest entry."""
        largest = [float(np.max(np.abs(x), initial=0.0)) for x in self.leaves.values]
        sizes = [size * (x or 1.0) for x in largest]
        return random_directions(self.leaves.values, sizes, self.seed + number)


def largest_difference(values: PyTree, expected: PyTree) -> float:
    """The difference of two trees, relative to each array's largest entry."""
    differences = [0.0]
    for a, b in zip(jax.tree.leaves(values), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        size = float(np.max(np.abs(b), initial=0.0))
        differences.append(float(np.max(np.abs(a - b), initial=0.0)) / (size or 1.0))
    return float(np.max(differences))
