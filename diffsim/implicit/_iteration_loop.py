"""A solver's iterations in one loop of JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, PyTree

from .._results import RESULTS, is_finite


def iterate(
    solver: Any, function: Callable, y: PyTree[Array], theta: PyTree, max_steps: int
):
    """y, the solver's last state, a status and the number of steps.

    As `optimistix.root_find` does it, of whose solvers this runs those without static
    state. Its own loop carries a flag that does not vary over a mesh with what does,
    which `shard_map` refuses; and a bare `while_loop` compiles in less time.
    """
    none: Any = frozenset()

    def fn(y, theta):
        return function(y, theta), None

    def stops(y, state):
        done, result = solver.terminate(fn, y, theta, {}, state, none)
        good: Any = optx.RESULTS
        lost = (result == good.successful) & ~is_finite(y)
        result = good.where(lost, good.nonfinite, result)
        return done | (result != good.successful), done, result

    def wanted(carry):
        y, state, n = carry
        return ~stops(y, state)[0] & (n < max_steps)

    def step(carry):
        y, state, n = carry
        y, state, _ = solver.step(fn, y, theta, {}, state, none)
        return y, state, n + 1

    state = solver.init(fn, y, theta, {}, None, None, none)
    y, state, n = jax.lax.while_loop(wanted, step, (y, state, jnp.asarray(0)))
    stopped, _, result = stops(y, state)
    names: Any = RESULTS
    status = names.nonlinear_max_steps_reached
    # `RESULTS.promote` looks results up in an array, which `shard_map` refuses.
    for name in ("successful", "nonfinite", "singular", "nonlinear_divergence"):
        here = stopped & (result == getattr(optx.RESULTS, name))
        status = names.where(here, getattr(names, name), status)
    return y, state, status, n
