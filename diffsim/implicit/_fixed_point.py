"""`fixed_point`: what a map leaves where it is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, PyTree

from ._anderson import Anderson
from ._implicit_differentiation import Rule
from ._implicit_layer import ProblemType, solve_layer
from ._layer_arguments import check_fits, floating


def fixed_point(
    function: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    rule: Rule | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: bool = False,
) -> Any:
    r"""The $y$ with $g(y, \theta) = y$, with the derivative of that equation:

    $$\frac{dy}{d\theta} = \left(1 - \frac{\partial g}{\partial y}\right)^{-1}
      \frac{\partial g}{\partial\theta}.$$

    **Arguments**

    - `function`: `function(y, args)`, of the structure of `y`.
    - `solver`: what `optimistix.fixed_point` takes; None is `Anderson()`, and
        `Picard()` is plain iteration. Root-finders solve g(y) − y = 0.
    - `guess`, `args`, `rule`, `max_steps`, `throw`, `full`: as for `root`. The residual
        of a `Solution` is |g(y) − y|.

    **Returns, raises, RESULTS, limits:** as `root`.
    """
    guess = floating("guess", guess)
    check_fits("function", function, "guess", guess, args)
    rule = Rule() if rule is None else rule
    solver = Anderson() if solver is None else solver
    return solve_layer(
        _KIND, function, guess, args, solver, rule, max_steps, throw=throw, full=full
    )


def _equation(function):
    return lambda y, theta: jax.tree.map(jnp.subtract, function(y, theta), y)


_KIND = ProblemType("function", _equation, optx.fixed_point, "no_root")
