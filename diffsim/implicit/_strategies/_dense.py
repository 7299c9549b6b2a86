"""Dense systems: one LU factorization for tangents and adjoints."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jax.flatten_util import ravel_pytree

from ._base import AbstractLinear


class Dense(AbstractLinear):
    r"""$PA = LU$, factored once for all tangents and adjoints at one solution.

    The matrix is made by $n$ products with the operator, the factors cost
    $\tfrac23 n^3$ and each solve $2n^2$.

    **Good values:** up to a thousand unknowns.

    **Limits:** an N × N array (mathematics); a singular matrix gives infinities
    (mathematics).
    """

    def prepared(self, operator, y):
        flat, unravel = ravel_pytree(y)

        def column(e):
            return ravel_pytree(operator(unravel(e)))[0]

        eye = jnp.eye(flat.size, dtype=flat.dtype)
        return linalg.lu_factor(jax.vmap(column, out_axes=1)(eye))

    def solved(self, state, operator, b):
        flat, unravel = ravel_pytree(b)
        return unravel(linalg.lu_solve(state, flat))

    def solved_transposed(self, state, transposed, b):
        flat, unravel = ravel_pytree(b)
        return unravel(linalg.lu_solve(state, flat, trans=1))
