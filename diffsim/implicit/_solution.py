"""`Solution`: the answer of an implicit layer, and how it went."""

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from .._results import RESULTS, result_message


class Solution(eqx.Module):
    """Solution with its diagnostics, as `root(..., full=True)` returns it.

    - `value`: the answer; NaN, with a derivative of NaN, where it was not found.
    - `status`: a `RESULTS`; `RESULTS[solution.status]` is empty or says what to try.
    - `residual`: the largest entry of |f| at the answer, f being the equation that is
        differentiated: the residual of `root`, the gradient in `minimise`, and so on.
    - `iterations`: steps of the solver.
    - `condition`: a lower estimate of the condition number $|A|_1 |A^{-1}|_1$ of
        $A = \\partial f/\\partial y$ there, rarely below a third of it. Infinite where
        the rule's strategy could not solve with A; NaN without an answer, and in
        `mode="reverse"`, which has no products with A. A derivative is good to the
        precision times this.
    """

    value: PyTree[Array]
    status: RESULTS
    residual: Float[Array, "..."]
    iterations: Int[Array, "..."]
    condition: Float[Array, ""] | None = None

    def __str__(self) -> str:
        outcome = result_message(self.status)
        if outcome is None:
            return repr(self)
        numbers = [
            f"largest residual {self.residual:.2g} after {self.iterations} iterations"
        ]
        if self.condition is not None:
            numbers.append(f"condition number {self.condition:.2g}")
        return f"{outcome}\n  value {self.value}\n  {', '.join(numbers)}"
