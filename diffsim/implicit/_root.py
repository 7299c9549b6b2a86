"""`root`: what makes a residual vanish."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Float, Int, PyTree

from .._results import RESULTS
from ._newton import Newton, largest
from ._rule import Equation, Rule, solved
from ._strategies import Split, StaleLU


class Solution(eqx.Module):
    """What `root(..., full=True)` returns.

    - `value`: the root; NaN, with a derivative of NaN, where it was not found.
    - `status`: a `RESULTS`; `RESULTS[solution.status]` is empty or says what to try.
    - `residual`: the largest entry of |f| at the root.
    - `iterations`: steps of the solver.
    """

    value: PyTree[Array]
    status: RESULTS
    residual: Float[Array, ""]
    iterations: Int[Array, ""]


def root(
    residual: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    rule: Rule | None = None,
    max_steps: int = 256,
    throw: bool = True,
    full: bool = False,
) -> Any:
    r"""The $y$ with $f(y, \theta) = 0$; its derivative is that of the equation:

    $$\frac{dy}{d\theta} = -\left(\frac{\partial f}{\partial y}\right)^{-1}
      \frac{\partial f}{\partial\theta}$$

    exactly, in every mode and nesting, at the cost of one linear solve and whatever the
    solver does: no iteration is differentiated.

    **Arguments**

    - `residual`: `residual(y, args)`, of the structure of `y`. What it closes over is
        differentiated as well.
    - `guess`: floating arrays, where the solver starts. It has no derivative.
    - `args`: any pytree.
    - `solver`: what `optimistix.root_find` takes; None is `Newton` by the strategy of
        the rule.
    - `rule`: a `Rule`, how the derivative is taken.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises. Under `vmap` all members raise together; with
        False each failed one is NaN, value and derivative, and the others are fine.
    - `full`: return a `Solution`, which says how it went.

    **Returns:** the root, like `guess`, or a `Solution`.

    **RESULTS:** those of Optimistix (`nonlinear_max_steps_reached`, ...), `no_root` if
    the solver stopped where f does not vanish, `no_linear_solution` if f does not
    determine y or an iterative linear solve did not converge, `non_finite`.

    **Raises:** `ValueError` for a guess that is not floating and a residual of another
    structure; `RuntimeError` if it fails and `throw`.

    **Limits:** the root nearest to the solver's path, not all of them (mathematics); at
    a double root there is no derivative (mathematics).
    """
    guess = _checked(residual, guess, args)
    how = _opened(rule or Rule(), guess)
    solver = _default(how) if solver is None else _opened(solver, guess)
    value, about = _solved(residual, guess, args, solver, how, max_steps)
    status, size, steps = about
    if throw:
        value = status.error_if(value, status != RESULTS.successful)
    return Solution(value, status, size, steps) if full else value


@eqx.filter_jit
def _solved(residual, guess, args, solver, rule: Rule, max_steps: int):
    unroll = rule.mode == "unroll"
    adjoint = optx.RecursiveCheckpointAdjoint() if unroll else optx.ImplicitAdjoint()
    reused = isinstance(solver, Newton) and rule.linear.reuses(solver.linear)

    def solve(solver, function, y, theta):
        found = optx.root_find(
            function,
            solver,
            y,
            theta,
            max_steps=max_steps,
            throw=False,
            adjoint=adjoint,
        )
        value, about = _judged(function, theta, found)
        return value, about, found.state.factor if reused else None

    equation = Equation.of(residual, guess, args, solver=solver, solve=solve)
    return solved(equation, guess, rule)


def _judged(function, theta, found: optx.Solution):
    """The root or NaN, and its status, largest residual and number of steps."""
    y = found.value
    size = largest(function(y, theta))
    status = RESULTS.promote(found.result)
    good = RESULTS.successful
    singular = status == RESULTS.singular
    status = RESULTS.where(singular, RESULTS.no_linear_solution, status)
    wrong = jnp.isfinite(size) & (size > _change(function, y, theta))
    status = RESULTS.where((status == good) & wrong, RESULTS.no_root, status)
    broken = ~jnp.isfinite(size)
    status = RESULTS.where((status == good) & broken, RESULTS.non_finite, status)
    value = jax.tree.map(lambda a: jnp.where(status == good, a, jnp.nan), y)
    return value, (status, size, jnp.asarray(found.stats["num_steps"]))


def _change(function, y, theta) -> Array:
    """How much f changes where the entries of y change by up to a hundredth.

    A solver of rough tolerances stops where |f| is above rounding, but below this; at a
    minimum of |f| that is no root, f hardly changes. The changes are irregular, so that
    no stencil is blind to them, and no derivative is needed, so that f may have none.
    """

    def moved(a):
        wave = jnp.cos(jnp.arange(1.0, a.size + 1) ** 2).astype(a.dtype)
        return a + 0.01 * wave.reshape(a.shape) * jnp.maximum(jnp.abs(a), 1)

    here, there = function(y, theta), function(jax.tree.map(moved, y), theta)
    return largest(jax.tree.map(jnp.subtract, there, here))


def _opened(given: Any, guess: PyTree[Array]) -> Any:
    """A rule or a solver, of which the functions of its strategy hide no array."""
    if not isinstance(given, Rule | Newton):
        return given
    return eqx.tree_at(lambda x: x.linear, given, given.linear.opened(guess))


def _default(rule: Rule) -> optx.AbstractRootFinder:
    linear = rule.linear.forward if isinstance(rule.linear, Split) else rule.linear
    # Newton's own factors are not stale: refining by them would be work for nothing.
    linear = linear.linear if isinstance(linear, StaleLU) else linear
    return Newton(linear=linear, backward=rule.mode == "reverse")


def _checked(residual, guess, args) -> PyTree[Array]:
    guess = jax.tree.map(jnp.asarray, guess)
    for leaf in jax.tree.leaves(guess):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"guess must hold floating arrays, got dtype {leaf.dtype}; write 1.0 "
                "for 1, and a complex unknown as its two parts"
            )
    found = eqx.filter_eval_shape(residual, guess, args)
    want, have = (_shapes(tree) for tree in (guess, found))
    if jax.tree.structure(guess) != jax.tree.structure(found) or want != have:
        raise ValueError(
            f"residual must return as many numbers as guess, in the same structure: "
            f"got {have}, expected {want}"
        )
    return guess


def _shapes(tree: PyTree) -> list[tuple[int, ...]]:
    return [x.shape for x in jax.tree.leaves(tree)]
