"""`Solution`: the answer of an implicit layer, and how it went."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._results import RESULTS, raise_if_failed, result_message, should_raise
from .._text_table import (
    Block,
    first_lines,
    html_representation,
    text_representation,
)
from .._types import PyTree


class Solution(eqx.Module):
    """Solution with its diagnostics, as `root_solution` returns it.

    - `value`: the answer; NaN, with a derivative of NaN, where it was not found.
    - `status`: a `RESULTS`; `RESULTS[solution.status]` is empty or says what to try.
    - `residual`: the largest entry of |f| at the answer, f being the equation that is
        differentiated: the residual of `root`, the gradient in `minimise`, and so on.
    - `iterations`: steps of the solver.
    - `condition`: a lower estimate of the condition number $|A|_1 |A^{-1}|_1$ of
        $A = \\partial f/\\partial y$ there, rarely below a third of it. Infinite where
        the linear solver of the adjoint could not solve with A; NaN without an answer,
        and in `mode="reverse"`, which has no products with A. A derivative is good to
        the precision times this.
    """

    value: PyTree[Array]
    status: RESULTS
    residual: Float[Array, "..."]
    iterations: Int[Array, "..."]
    condition: Float[Array, ""] | None = None

    @classmethod
    def of_nothing(cls, value: PyTree[Array]) -> "Solution":
        """The solution of no equations for no unknowns."""
        zero = jnp.zeros(())
        return cls(value, RESULTS.successful, zero, jnp.asarray(0), zero + 1)

    def __repr__(self) -> str:
        return text_representation(self, _description)

    def _repr_html_(self) -> str:
        return html_representation(self, _description)


def raise_on_failure(solution: Solution, throw: bool | None) -> Solution:
    """`solution`, whose value raises if it failed and `throw` says so."""
    if not should_raise(throw):
        return solution
    value = raise_if_failed(solution.value, solution.status)
    return dataclasses.replace(solution, value=value)


def _description(solution: Solution) -> list[Block]:
    """The outcome and its numbers."""
    outcome = result_message(solution.status)
    if outcome is None:
        raise ValueError("solution must be one, got a batch")
    numbers = [
        f"largest residual {solution.residual:.2g} after {solution.iterations} "
        "iterations"
    ]
    if solution.condition is not None:
        numbers.append(f"condition number {solution.condition:.2g}")
    value = first_lines(str(solution.value))
    return [outcome, f"  value {value}", f"  {', '.join(numbers)}"]
