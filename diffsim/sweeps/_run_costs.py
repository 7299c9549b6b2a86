"""Costs of runs: how often their loops go round, counted, and guessed for others.

Lanes of a batch go on until the last one ends. Of runs whose number of steps is decided
as they go, those that take about as many should lie side by side.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import _tuning
from .._jaxpr._inspection import While, called, while_of
from .._jaxpr._tracing import bind, evaluate, run_jaxpr
from ._swept_parameters import Rows


def counted(closed: Any) -> Callable[..., tuple[list[Array], Array]]:
    """The function of a jaxpr, and how often its outermost loops went round in it."""

    def function(*inputs: Array) -> tuple[list[Array], Array]:
        counts = [jnp.zeros((), jnp.int32)]

        def rule(eqn, values):
            if (inside := called(eqn)) is not None:
                return evaluate(inside, values, rule)
            if (loop := while_of(eqn)) is None:
                return bind(eqn, values)
            outputs, count = _counted_loop(loop, values)
            counts.append(count)
            return outputs

        outputs = evaluate(closed, inputs, rule)
        return list(map(jnp.asarray, outputs)), sum(counts[1:], start=counts[0])

    return function


def _counted_loop(loop: While, values: list[Any]) -> tuple[list[Array], Array]:
    first, second = loop.condition_constants, loop.condition_constants + loop.constants

    def condition(state):
        (goes_on,) = run_jaxpr(loop.condition, *values[:first], *state[0])
        return goes_on

    def body(state):
        carry = run_jaxpr(loop.body, *values[first:second], *state[0])
        return carry, state[1] + 1

    start = list(map(jnp.asarray, values[second:])), jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(condition, body, start)


class RunCosts:
    """Costs of some runs, and guesses of those of others, by their parameters."""

    def __init__(self, table: Rows):
        self.table = table
        self.runs: list[np.ndarray] = []
        self.costs: list[np.ndarray] = []

    @functools.cached_property
    def places(self) -> np.ndarray:
        """Where each run is among all, by every parameter.

        Ranks, as parameters may be of any size, and go from 1e-9 to 1.
        """
        columns = [np.asarray(x, np.float64) for x in jax.tree.leaves(self.table)]
        ranks = np.concatenate(columns, axis=1).argsort(0).argsort(0)
        return ranks / len(ranks)

    def learn(self, runs: np.ndarray, costs: np.ndarray):
        """Note what runs took."""
        if sum(map(len, self.runs)) < _tuning.MOST_KNOWN_RUNS:
            self.runs.append(runs)
            self.costs.append(costs)

    def sorted(self, runs: np.ndarray) -> np.ndarray:
        """The runs, those that probably take longest first."""
        if not self.runs:
            return runs
        from scipy.spatial import KDTree  # one of JAX's own dependencies, slow to load

        done, costs = np.concatenate(self.runs), np.concatenate(self.costs)
        nearest = min(_tuning.NEAREST_RUNS, len(done))
        _, neighbors = KDTree(self.places[done]).query(self.places[runs], nearest)
        guessed = costs[neighbors].reshape(len(runs), -1).mean(1)
        return runs[np.argsort(-guessed, kind="stable")]
