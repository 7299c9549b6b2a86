"""`fixed_point`: the point that a map leaves where it is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array

from .._types import PyTree
from ._anderson import Anderson
from ._implicit_differentiation import Adjoint, ImplicitAdjoint
from ._implicit_layer import ProblemType, solve_layer
from ._layer_arguments import check_fits, floating, in_type_of
from ._solution import Solution


def fixed_point(
    function: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
) -> PyTree[Array]:
    r"""Find the fixed point $g(y, \theta) = y$, with the derivative of that equation:

    $$\frac{dy}{d\theta} = \left(1 - \frac{\partial g}{\partial y}\right)^{-1}
      \frac{\partial g}{\partial\theta}.$$

    ```python
    def infected(z, contacts):  # the share of all that an epidemic reaches
        return 1 - jnp.exp(-contacts * z)

    implicit.fixed_point(infected, 0.5, 1.5)
    jax.grad(lambda contacts: implicit.fixed_point(infected, 0.5, contacts))(1.5)
    ```

    **Arguments**

    - `function`: `function(y, args)`, of the structure of `y`.
    - `solver`: what `optimistix.fixed_point` takes; None is `Anderson()`, and
        `Picard()` is plain iteration. Root-finders solve g(y) − y = 0.
    - `guess`, `args`, `adjoint`, `max_steps`, `throw`: as for `root`.

    **Returns, raises, RESULTS, limits:** as `root`; `fixed_point_solution` says as well
    how it went.
    """
    return _fixed_point(
        function, guess, args, solver, adjoint, max_steps, throw, condition=False
    ).value


def fixed_point_solution(
    function: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
) -> Solution:
    """Find a fixed point as `fixed_point` does, and say how it went.

    **Arguments:** `function`, `guess`, `args`, `solver`, `adjoint`, `max_steps` and
    `throw` are those of `fixed_point`.

    **Returns:** a `Solution`, whose residual is |g(y) − y|.
    """
    return _fixed_point(
        function, guess, args, solver, adjoint, max_steps, throw, condition=True
    )


def _fixed_point(
    function, guess, args, solver, adjoint, max_steps, throw, condition
) -> Solution:
    guess = floating("guess", guess)
    guess, value = in_type_of("function", function, guess, args)
    check_fits("function", "guess", guess, value)
    adjoint = ImplicitAdjoint() if adjoint is None else adjoint
    solver = Anderson() if solver is None else solver
    return solve_layer(
        _KIND, function, guess, args, solver, adjoint, max_steps, throw, condition
    )


def _equation(function):
    return lambda y, theta: jax.tree.map(jnp.subtract, function(y, theta), y)


_KIND = ProblemType("function", _equation, optx.fixed_point, "no_root")
