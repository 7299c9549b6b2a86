"""`AbstractLinearSolver`: how the linear systems of a derivative are solved."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..._linalg import machine_epsilon, max_norm
from ..._types import PyTree
from ..._validation import instance


#: v ↦ A v for pytrees like the unknown.
Operator = Callable[[PyTree[Array]], PyTree[Array]]
#: A solution, and the iterations it took.
Solved = tuple[PyTree[Array], Array]


class AbstractLinearSolver(eqx.Module):
    r"""Linear solver for $A x = b$ and $A^T x = b$ by what was prepared for both.

    $A = \partial f/\partial y$ at the solution, given as a function $v \mapsto A v$.
    Tangents, adjoints and derivatives of any order come here; so do the steps of
    `implicit.Newton`. A system that cannot be solved is answered with NaN.
    """

    @abc.abstractmethod
    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        """Prepare what both solves share: a factorization, or None.

        `operator` is v ↦ A v, or v ↦ Aᵀ v if `transposed`; `hint` is what another
        solve prepared nearby, if it can be used (see `reuses`).
        """

    @abc.abstractmethod
    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        """x with A x = b."""

    @abc.abstractmethod
    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        """x with Aᵀ x = b; `transposed` is v ↦ Aᵀ v."""

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        """Return `state`, or NaN where A has not the structure that was presumed.

        Asked for derivatives and by `linear_solve`, where a matrix that is only nearly
        right gives an answer that is only nearly right. `operator` is as in `prepare`.
        """
        return state

    def reuses(self, other: "AbstractLinearSolver") -> bool:
        """Whether what `other` prepared can be the `hint` of `prepare`."""
        return False


class ForwardAdjointSolvers(AbstractLinearSolver):
    """Two linear solvers: `forward` for $A x = b$, `adjoint` for $A^T x = b$.

    ```python
    def balance(y, theta):
        return y + theta * jnp.mean(y) ** 3 - jnp.arange(50.0)

    tight, loose = implicit.Krylov(rtol=1e-10), implicit.Krylov(rtol=1e-3)
    adjoint = implicit.ImplicitAdjoint(implicit.ForwardAdjointSolvers(tight, loose))
    implicit.root(balance, jnp.ones(50), 0.1, adjoint=adjoint)
    ```

    An adjoint may want another tolerance, method or preconditioner: gradients for an
    optimizer are often good enough with three digits.
    """

    forward: AbstractLinearSolver
    adjoint: AbstractLinearSolver

    def prepare(self, operator, y, hint=None, *, transposed=False):
        ahead, back = (None, None) if hint is None else hint
        return (
            self.forward.prepare(operator, y, ahead, transposed=transposed),
            self.adjoint.prepare(operator, y, back, transposed=transposed),
        )

    def solve(self, state, operator, b):
        return self.forward.solve(state[0], operator, b)

    def solve_transpose(self, state, transposed, b):
        return self.adjoint.solve_transpose(state[1], transposed, b)

    def verify_structure(self, state, operator, y, *, transposed=False):
        return tuple(
            part.verify_structure(mine, operator, y, transposed=transposed)
            for part, mine in zip((self.forward, self.adjoint), state, strict=True)
        )


def as_linear_solver(linear_solver: Any) -> AbstractLinearSolver:
    """Refuse Krylov methods and solvers of Lineax, which are no linear solvers."""
    return instance(
        "linear_solver",
        linear_solver,
        AbstractLinearSolver,
        "implicit.Dense(), implicit.Krylov(method) or implicit.LineaxSolver(solver)",
    )


def matrix_of(operator: Operator, y: PyTree[Array], *, transposed: bool) -> Array:
    """A, from n products with it or with its transpose."""
    flat, unravel = ravel_pytree(y)

    def product(e):
        return ravel_pytree(operator(unravel(e)))[0]

    # The unit vectors have the type of y, inside shard_map as well.
    eye = jnp.where(False, flat, jnp.eye(flat.size, dtype=flat.dtype))
    return jax.vmap(product, out_axes=0 if transposed else 1)(eye)


def unless_singular(
    linear_solver: AbstractLinearSolver,
    state: Any,
    operator: Operator,
    y,
    *,
    transposed: bool,
) -> PyTree:
    """`state`, or NaN where A⁻¹ A v is not v for a vector v.

    One test serves for all solutions, without a product with the transpose, for which
    reverse mode would have to keep all of A.
    """
    solve = linear_solver.solve_transpose if transposed else linear_solver.solve
    vector = jax.tree.map(_irregular, y)
    b = operator(vector)
    x, _ = solve(state, operator, b)
    # Singular systems are NaN already, and leave the others alone.
    x = jax.tree.map(lambda a, v: jnp.where(jnp.isnan(a), v, a), x, vector)
    return _where_equal(state, b, operator(x))


def unless_irregular(
    product: Operator, state: Any, operator: Operator, y: PyTree[Array]
) -> PyTree:
    """`state`, or NaN where A v is not `product` v for a vector v."""
    vector = jax.tree.map(_irregular, y)
    return _where_equal(state, operator(vector), product(vector))


def _irregular(a: Array) -> Array:
    """A vector v for which A v is about as large as |A| |v|: nothing cancels."""
    signs = jnp.sign(jnp.cos(jnp.arange(1.0, a.size + 1) ** 2))
    return signs.reshape(a.shape).astype(a.dtype) + 0 * a


def _where_equal(state: Any, b: PyTree[Array], presumed: PyTree[Array]) -> PyTree:
    left = max_norm(jax.tree.map(jnp.subtract, b, presumed))
    fits = left <= machine_epsilon(b) ** 0.5 * max_norm(b)
    return jax.tree.map(
        lambda a: jnp.where(fits, a, jnp.nan) if eqx.is_inexact_array(a) else a, state
    )


def direct_solution(x: PyTree[Array]) -> Solved:
    """An answer that took no iterations but itself."""
    return x, jnp.asarray(1)


def only_array(y: PyTree[Array], solver: str, shape: str) -> Array:
    """The one array that `y` has to be."""
    leaves = jax.tree.leaves(y)
    if len(leaves) != 1 or leaves[0].ndim < shape.count(",") + 1:
        raise ValueError(
            f"{solver} solves for one array of shape (..., {shape}), got shapes "
            f"{[leaf.shape for leaf in leaves]}; stack the unknowns, or use Dense()"
        )
    return leaves[0]
