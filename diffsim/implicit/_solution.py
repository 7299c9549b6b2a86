"""`Solution`: the answer of an implicit layer, and how it went."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .._results import RESULTS, result_message
from .._types import PyTree
from .._validation import is_traced


#: Lines of a value that a representation shows.
_MOST_LINES = 20


class Solution(eqx.Module):
    """Solution with its diagnostics, as `root(..., full=True)` returns it.

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

    def __str__(self) -> str:
        return _description(self)

    def __repr__(self) -> str:
        # Debuggers ask at any time, and nothing is waited for there.
        known = all(map(_is_known, jax.tree.leaves(self)))
        return _description(self) if known else eqx.tree_pformat(self)


def _description(solution: Solution) -> str:
    """The outcome and its numbers; the tree of what has none, as traced or in a batch.

    A tree may have been mapped to anything, and who prints it wants to see it.
    """
    try:
        outcome = result_message(solution.status)
        if outcome is None:
            return eqx.tree_pformat(solution)
        numbers = [
            f"largest residual {solution.residual:.2g} after {solution.iterations} "
            "iterations"
        ]
        if solution.condition is not None:
            numbers.append(f"condition number {solution.condition:.2g}")
        value = _first_lines(str(solution.value))
        return f"{outcome}\n  value {value}\n  {', '.join(numbers)}"
    except Exception:
        return eqx.tree_pformat(solution)


def _is_known(leaf: Any) -> bool:
    """Whether a leaf can be shown without waiting for it."""
    if is_traced(leaf):
        return False
    if not isinstance(leaf, jax.Array):
        return isinstance(leaf, np.ndarray | np.generic)
    array: Any = leaf
    return array.is_fully_addressable and not array.is_deleted() and array.is_ready()


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _MOST_LINES:
        return text
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"… and {more} more"])
