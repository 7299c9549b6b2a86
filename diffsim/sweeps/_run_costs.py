"""Costs of runs: how often their loops go round, counted, and guessed for others.

Lanes of a batch go on until the last one ends. Of runs whose number of steps is decided
as they go, those that take about as many should lie side by side.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jaxpr._batch_axis import CALLS, called
from .._jaxpr._jaxpr_inspection import While, while_of
from .._jaxpr._primitives import evaluate
from .._jaxpr._program import bind
from ._swept_parameters import Rows


#: Runs from which others are guessed, by the nearest ones.
_NEAREST, _MOST = 2, 4096


def counted(closed: Any) -> Callable[..., tuple[list[Array], Array]]:
    """The function of a jaxpr, and how often its outermost loops went round in it."""

    def function(*inputs: Array) -> tuple[list[Array], Array]:
        return _evaluate(closed.jaxpr, closed.consts, inputs)

    return function


def _evaluate(
    jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]
) -> tuple[list[Any], Array]:
    known = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, inputs, strict=True))
    count = jnp.zeros((), jnp.int32)

    def read(atom: Any) -> object:
        return atom.val if hasattr(atom, "val") else known[atom]

    for eqn in jaxpr.eqns:
        values, more = [read(atom) for atom in eqn.invars], 0
        inside = called(eqn) if eqn.primitive.name in CALLS else None
        loop = while_of(eqn)
        if loop is not None:
            found, more = _counted_loop(loop, values)
        elif inside is not None:
            open_ = getattr(inside, "jaxpr", inside)
            found, more = _evaluate(open_, getattr(inside, "consts", ()), values)
        else:
            found = bind(eqn, values)
        known |= dict(zip(eqn.outvars, found, strict=True))
        count += more
    return [jnp.asarray(read(atom)) for atom in jaxpr.outvars], count


def _counted_loop(loop: While, values: list[Any]) -> tuple[list[Array], Array]:
    first, second = loop.condition_constants, loop.condition_constants + loop.constants
    asked, shared, carry = values[:first], values[first:second], values[second:]

    def condition(state):
        (goes_on,) = evaluate(loop.condition, *asked, *state[0])
        return goes_on

    def body(state):
        return evaluate(loop.body, *shared, *state[0]), state[1] + 1

    start = list(map(jnp.asarray, carry)), jnp.zeros((), jnp.int32)
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
        if sum(map(len, self.runs)) < _MOST:
            self.runs.append(runs)
            self.costs.append(costs)

    def sorted(self, runs: np.ndarray) -> np.ndarray:
        """The runs, those that probably take longest first."""
        if not self.runs:
            return runs
        from scipy.spatial import KDTree  # one of JAX's own dependencies, slow to load

        known, costs = np.concatenate(self.runs), np.concatenate(self.costs)
        nearest = min(_NEAREST, len(known))
        _, at = KDTree(self.places[known]).query(self.places[runs], nearest)
        guessed = costs[at].reshape(len(runs), -1).mean(1)
        return runs[np.argsort(-guessed, kind="stable")]
