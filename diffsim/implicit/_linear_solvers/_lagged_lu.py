"""Iterative refinement by the factors of a nearby system."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linalg import machine_epsilon, max_norm
from ..._validation import count
from ._dense import Dense
from ._linear_solver import AbstractLinearSolver


class LaggedLU(AbstractLinearSolver):
    r"""Iterative refinement by the factorization that Newton's last step left behind.

    $$x \leftarrow x + \tilde A^{-1} (b - A x)$$

    ```python
    def balance(y, theta):  # of 100 numbers, each coupled to all
        return y + theta * jnp.sin(jnp.sum(y)) - jnp.linspace(0.0, 1.0, 100)

    def first(theta):
        adjoint = implicit.ImplicitAdjoint(implicit.LaggedLU())
        return implicit.root(balance, jnp.ones(100), theta, adjoint=adjoint)[0]

    jax.grad(first)(0.1)  # by the factors of Newton's last step
    ```

    The last step is taken from a point near the root, so that one to three steps with
    the exact operator leave nothing of the difference, and a derivative factors
    nothing: `implicit.Newton` hands its factors on. Behind another solver they are made
    anew.

    **Arguments**

    - `linear_solver`: what was factored, `Dense()` or a banded one.
    - `refinement_steps`: the most refinements. A correction that is not small by then
        gives NaN.

    **Good values:** 4 refinement steps; the larger the system, the more this saves.
    """

    linear_solver: AbstractLinearSolver = Dense()
    refinement_steps: int = eqx.field(
        default=4, converter=partial(count, "refinement_steps")
    )

    def prepare(self, operator, y, hint=None, *, transposed=False):
        if hint is not None:
            return hint
        return self.linear_solver.prepare(operator, y, transposed=transposed)

    def solve(self, state, operator, b):
        return self._refined(
            lambda r: self.linear_solver.solve(state, operator, r), operator, b
        )

    def solve_transpose(self, state, transposed, b):
        def solve(r):
            return self.linear_solver.solve_transpose(state, transposed, r)

        return self._refined(solve, transposed, b)

    def reuses(self, other: AbstractLinearSolver) -> bool:
        other = other.linear_solver if isinstance(other, LaggedLU) else other
        return jax.tree.structure(other) == jax.tree.structure(self.linear_solver)

    def _refined(self, solve, operator, b):
        def wanted(carry):
            _, last, before, size, n = carry
            # The error left is this share of the last correction.
            return (n < self.refinement_steps) & (
                last * last > machine_epsilon(b) * size * before
            )

        def sweep(carry):
            x, last, _, _, n = carry
            step = solve(jax.tree.map(jnp.subtract, b, operator(x)))[0]
            x = jax.tree.map(jnp.add, x, step)
            return x, max_norm(step), last, max_norm(x), n + 1

        x = solve(b)[0]
        size = max_norm(x)
        start = (x, size, size, size, jnp.asarray(0))
        x, last, _, size, n = jax.lax.while_loop(wanted, sweep, start)
        settled = jnp.isfinite(size) & (last <= machine_epsilon(x) ** 0.5 * size)
        return jax.tree.map(lambda a: jnp.where(settled, a, jnp.nan), x), n
