"""Iterations of a solver: their loop, and the tests by which solvers end them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool

from .._linalg import machine_epsilon, max_norm
from .._results import RESULTS, is_finite
from .._types import PyTree


def iterate(
    solver: Any, function: Callable, y: PyTree[Array], theta: PyTree, max_steps: int
):
    """y, the solver's last state, a status and the number of steps.

    As `optimistix.root_find` does it, of whose solvers this runs those without static
    state. Its own loop carries a flag that does not vary over a mesh with what does,
    which `shard_map` refuses; and a bare `while_loop` compiles in less time.
    """
    tags: Any = frozenset()
    results: Any = optx.RESULTS

    def fn(y, theta):
        return function(y, theta), None

    def stops(y, state):
        done, result = solver.terminate(fn, y, theta, {}, state, tags)
        is_lost = (result == results.successful) & ~is_finite(y)
        result = results.where(is_lost, results.nonfinite, result)
        return done | (result != results.successful), done, result

    def goes_on(carry):
        y, state, n = carry
        return ~stops(y, state)[0] & (n < max_steps)

    def step(carry):
        y, state, n = carry
        y, state, _ = solver.step(fn, y, theta, {}, state, tags)
        return y, state, n + 1

    state = solver.init(fn, y, theta, {}, None, None, tags)
    y, state, n = jax.lax.while_loop(goes_on, step, (y, state, jnp.asarray(0)))
    stopped, _, result = stops(y, state)
    status = RESULTS.nonlinear_max_steps_reached
    # `RESULTS.promote` looks results up in an array, which `shard_map` refuses.
    for name in ("successful", "nonfinite", "singular", "nonlinear_divergence"):
        here = stopped & (result == getattr(results, name))
        status = RESULTS.where(here, getattr(RESULTS, name), status)
    return y, state, status, n


def step_over_tolerance(
    step, y, rtol: float | None, atol: float | None, *, power: float
):
    """`step` over `atol` + `rtol` |y|; None is a power of the precision."""
    default = machine_epsilon(y) ** power
    relative, absolute = (default if t is None else t for t in (rtol, atol))
    return jax.tree.map(lambda d, a: d / (absolute + relative * jnp.abs(a)), step, y)


def relative_to(step: PyTree[Array], tolerance: PyTree[Array]) -> PyTree[Array]:
    """`step` over `tolerance`, and zero where the step is zero."""
    return jax.tree.map(
        lambda d, t: jnp.where(d == 0, 0, d / jnp.where(d == 0, 1, t)), step, tolerance
    )


def is_below_rounding(
    function: Callable, y: PyTree[Array], value, step, change, reach: float
) -> Bool[Array, ""]:
    """Whether f at y is rounding, of constants that y need not be comparable with.

    `change` is A `step`. Where f is straight over `reach` times the step that makes it
    vanish, that step is small by the measure of f itself, whatever the units of y. The
    rest of f is rounding if it also hides how f changes over a small part of the step:
    at a corner or a jump, the values of f beside it differ by far less than f is large.
    """
    part = machine_epsilon(y) ** 0.25
    parts = jnp.asarray([reach, part, 2 * part, -part, -2 * part])

    def value_after(part):
        return function(
            jax.tree.map(lambda a, s: a + part.astype(a.dtype) * s, y, step)
        )

    # One after the other: f is compiled once.
    values = jax.lax.map(value_after, parts)

    def leaf_is_rounding(values, value, change):
        far, *beside = values
        size = max_norm(value)
        straight = jnp.abs(far - value - reach * change) <= reach / 4 * size
        pairs = (beside[1] - beside[0], beside[2] - beside[3])
        misses = jnp.stack([max_norm(by - part * change) for by in pairs])
        hidden = jnp.all(misses > part / 2 * size)
        # A value of zero has nothing to be compared with.
        return (jnp.all(straight) & hidden) | (size == 0)

    each = jax.tree.leaves(jax.tree.map(leaf_is_rounding, values, value, change))
    return jnp.all(jnp.stack(each))


def test_where(wanted: Bool[Array, ""], test: Callable[[], Array]) -> Bool[Array, ""]:
    """`wanted and test()`; of a batch, `test` runs if any member wants it."""
    # A loop and not `cond`, which a batch turns into code that always runs, and which
    # `shard_map` refuses there.
    _, result = jax.lax.while_loop(
        lambda carry: carry[0],
        lambda carry: (carry[0] & False, test()),
        (wanted, wanted & False),
    )
    return result
