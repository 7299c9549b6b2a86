"""`LineaxSolver`: any Lineax solver, matrix-free where it is."""

import jax
import jax.numpy as jnp
import lineax as lx

from ._linear_solver import AbstractLinearSolver


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

    def prepare(self, operator, y, hint=None, *, transposed=False):
        """Nothing is prepared: each solve is by products alone."""

    def solve(self, state, operator, b):
        shape = jax.eval_shape(lambda: b)
        matrix = lx.FunctionLinearOperator(operator, shape)
        # Not lineax.linear_solve, whose own derivative rule would be nested in ours.
        x, result, stats = self.solver.compute(self.solver.init(matrix, {}), b, {})
        nothing = sum(jnp.sum(leaf != 0) for leaf in jax.tree.leaves(b)) == 0
        is_solved = result == lx.RESULTS.successful
        x = jax.tree.map(
            lambda a: jnp.where(nothing, 0, jnp.where(is_solved, a, jnp.nan)), x
        )
        return x, jnp.asarray(stats.get("num_steps", 1))

    def solve_transpose(self, state, transposed, b):
        return self.solve(state, transposed, b)
