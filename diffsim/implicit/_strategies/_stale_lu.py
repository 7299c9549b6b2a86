"""Factors of a nearby system, refined."""

import jax
import jax.numpy as jnp

from ..._sizes import largest, precision
from ._base import AbstractLinear
from ._dense import Dense


class StaleLU(AbstractLinear):
    r"""The factorization that Newton's last step left behind, and refinement.

    $$x \leftarrow x + \tilde A^{-1} (b - A x)$$

    The last step is taken from a point within the square root of the final error, so
    two sweeps with the exact operator leave nothing of the difference, and a derivative
    factors nothing: `implicit.Newton` hands its factors on. Behind another solver they
    are made anew.

    **Arguments**

    - `linear`: what was factored, `Dense()` or a banded strategy.
    - `sweeps`: refinements. A correction that is not small by then gives NaN.

    **Good values:** 2 sweeps; the larger the system, the more this saves.
    """

    linear: AbstractLinear = Dense()
    sweeps: int = 2

    def __check_init__(self):
        if self.sweeps < 1:
            raise ValueError(f"sweeps must be 1 or more, got {self.sweeps}")

    def prepared(self, operator, y, hint=None, *, transposed=False):
        if hint is not None:
            return hint
        return self.linear.prepared(operator, y, transposed=transposed)

    def solved(self, state, operator, b):
        return self._refined(
            lambda r: self.linear.solved(state, operator, r), operator, b
        )

    def solved_transposed(self, state, transposed, b):
        def solve(r):
            return self.linear.solved_transposed(state, transposed, r)

        return self._refined(solve, transposed, b)

    def reuses(self, other):
        other = other.linear if isinstance(other, StaleLU) else other
        return jax.tree.structure(other) == jax.tree.structure(self.linear)

    def _refined(self, solve, operator, b):
        x, correction = solve(b)[0], b
        for _ in range(self.sweeps):
            correction = solve(jax.tree.map(jnp.subtract, b, operator(x)))[0]
            x = jax.tree.map(jnp.add, x, correction)
        return _where_small(correction, x), jnp.asarray(self.sweeps)


def _where_small(correction, x):
    """x, or NaN where its last correction exceeds the root of the rounding of x."""
    settled = largest(correction) <= precision(x) ** 0.5 * largest(x)
    return jax.tree.map(lambda a: jnp.where(settled, a, jnp.nan), x)
