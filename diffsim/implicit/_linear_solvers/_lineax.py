"""`LineaxSolver`: any Lineax solver, matrix-free where it is."""

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array

from ..._types import PyTree
from ._linear_solver import AbstractLinearSolver, Operator, Solved


class LineaxSolver(AbstractLinearSolver):
    """Lineax solver for tangents and adjoints.

    ```python
    import lineax

    solver = implicit.LineaxSolver(lineax.GMRES(rtol=1e-10, atol=1e-10))
    adjoint = implicit.ImplicitAdjoint(solver)
    implicit.root(lambda y, a: y**3 + y - a, 1.0, 3.0, adjoint=adjoint)
    ```

    **Arguments**

    - `solver`: `lineax.GMRES(rtol=1e-10, atol=1e-10)` for instance; it sees the
        operator as a function and makes no matrix unless it needs one.

    A right-hand side of zero is answered with zero, and a solve that fails with NaN.

    **Good values:** tolerances a tenth of the error that the derivative may have.

    **Limits:** no preconditioner, and not inside `shard_map`: `Krylov` has both
    (convenience).
    """

    solver: lx.AbstractLinearSolver

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del operator, y, hint, transposed

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del state
        shape = jax.eval_shape(lambda: b)
        known = lx.FunctionLinearOperator(operator, shape)
        # Not lineax.linear_solve, whose own derivative rule would be nested in ours.
        x, result, stats = self.solver.compute(self.solver.init(known, {}), b, {})
        nothing = sum(jnp.sum(leaf != 0) for leaf in jax.tree.leaves(b)) == 0
        good = result == lx.RESULTS.successful
        x = jax.tree.map(
            lambda a: jnp.where(nothing, 0, jnp.where(good, a, jnp.nan)), x
        )
        return x, jnp.asarray(stats.get("num_steps", 1))

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        return self.solve(state, transposed, b)
