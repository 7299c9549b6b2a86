"""`root`: what makes a residual vanish."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Float, Int, PyTree

from .._results import RESULTS
from ._rule import Equation, Rule, solved


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
    - `solver`: what `optimistix.root_find` takes; None is `optimistix.Newton` to the
        3/5 power of the float's precision, which its last step squares.
    - `rule`: a `Rule`, how the derivative is taken.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises. Under `vmap` all members raise together; with
        False each failed one is NaN, value and derivative, and the others are fine.
    - `full`: return a `Solution`, which says how it went.

    **Returns:** the root, like `guess`, or a `Solution`.

    **RESULTS:** those of Optimistix (`nonlinear_max_steps_reached`, ...), `no_root` if
    the solver stopped where f does not vanish, `non_finite`.

    **Raises:** `ValueError` for a guess that is not floating and a residual of another
    structure; `RuntimeError` if it fails and `throw`.

    **Limits:** the root nearest to the solver's path, not all of them (mathematics); at
    a double root there is no derivative (mathematics).
    """
    rule = Rule() if rule is None else rule
    guess = _checked(residual, guess, args)
    solver = _newton(guess) if solver is None else solver
    value, about = _solved(residual, guess, args, solver, rule, max_steps)
    status, size, steps = about
    if throw:
        value = status.error_if(value, status != RESULTS.successful)
    return Solution(value, status, size, steps) if full else value


@eqx.filter_jit
def _solved(residual, guess, args, solver, rule: Rule, max_steps: int):
    unroll = rule.mode == "unroll"
    adjoint = optx.RecursiveCheckpointAdjoint() if unroll else optx.ImplicitAdjoint()

    def solve(function, y, theta):
        found = optx.root_find(
            function,
            solver,
            y,
            theta,
            max_steps=max_steps,
            throw=False,
            adjoint=adjoint,
        )
        return _judged(function, theta, found)

    return solved(Equation.of(residual, guess, args, solve), guess, rule)


def _judged(function, theta, found: optx.Solution):
    """The root or NaN, and its status, largest residual and number of steps."""
    y = found.value
    size = _largest(function(y, theta))
    status = RESULTS.promote(found.result)
    wrong = jnp.isfinite(size) & (size > _allowed(function, y, theta))
    good = RESULTS.successful
    status = RESULTS.where((status == good) & wrong, RESULTS.no_root, status)
    broken = ~jnp.isfinite(size)
    status = RESULTS.where((status == good) & broken, RESULTS.non_finite, status)
    value = jax.tree.map(lambda a: jnp.where(status == good, a, jnp.nan), y)
    return value, (status, size, jnp.asarray(found.stats["num_steps"]))


def _largest(tree: PyTree[Array]) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(tree)]))


def _allowed(function, y, theta) -> Array:
    """What f may be where a hundredth of y would make it vanish, to first order.

    A solver of rough tolerances stops above rounding; at a minimum of |f| that is no
    root the slope is zero.
    """
    ones = jax.tree.map(lambda a: jnp.maximum(jnp.abs(a), 1), y)
    _, slope = jax.jvp(lambda z: function(z, theta), (y,), (ones,))
    return 0.01 * _largest(slope)


def _newton(guess: PyTree[Array]) -> optx.Newton:
    eps = max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(guess))
    return optx.Newton(rtol=eps**0.6, atol=eps**0.6)


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
