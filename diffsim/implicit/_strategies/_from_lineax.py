"""`FromLineax`: any Lineax solver, matrix-free where it is."""

import jax
import jax.numpy as jnp
import lineax as lx

from ._base import AbstractLinear


class FromLineax(AbstractLinear):
    """A Lineax solver for tangents, and another, or the same, for adjoints.

    **Arguments**

    - `solver`: `lineax.GMRES(rtol=1e-10, atol=1e-10)` for instance; it sees the
        operator as a function and makes no matrix unless it needs one.
    - `adjoint`: for the transposed system; None is `solver` again.

    A right-hand side of zero is answered with zero, and a solve that fails with NaN.

    **Good values:** tolerances a tenth of the error that the derivative may have.

    **Limits:** no preconditioner yet, and not inside `shard_map` (convenience).
    """

    solver: lx.AbstractLinearSolver
    adjoint: lx.AbstractLinearSolver | None = None

    def prepared(self, operator, y):
        del operator, y

    def solved(self, state, operator, b):
        return _by(self.solver, operator, b)

    def solved_transposed(self, state, transposed, b):
        solver = self.solver if self.adjoint is None else self.adjoint
        return _by(solver, transposed, b)


def _by(solver, function, b):
    shape = jax.eval_shape(lambda: b)
    operator = lx.FunctionLinearOperator(function, shape)
    # Not lineax.linear_solve, whose own derivative rule would be nested in ours.
    x, result, _ = solver.compute(solver.init(operator, {}), b, {})
    leaves = jax.tree.leaves(b)
    nothing = sum(jnp.sum(leaf != 0) for leaf in leaves) == 0
    good = result == lx.RESULTS.successful
    return jax.tree.map(lambda a: jnp.where(nothing, 0, jnp.where(good, a, jnp.nan)), x)
