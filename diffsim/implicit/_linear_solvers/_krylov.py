"""`Krylov`: systems known by their products only."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import machine_epsilon
from ..._types import PyTree
from ..._validation import instance
from .._layer_arguments import check_tolerances
from ._gmres import GMRES
from ._krylov_methods import AbstractKrylovMethod, Inner
from ._linear_solver import AbstractLinearSolver, Operator, Solved


def inner_product(a: PyTree[Array], b: PyTree[Array]) -> Array:
    """Σ a b over all entries."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    # A sum of products is added up one by one, a product of vectors in parallel.
    parts = (jnp.vdot(x, y, precision="highest") for x, y in pairs)
    return sum(parts, start=jnp.asarray(0.0, _type(a)))


class Krylov(AbstractLinearSolver):
    r"""Krylov method, stopped at $|b - A x| \le \max(\text{rtol}\,|b|, \text{atol})$.

    ```python
    def transport(u):
        return 3 * u - 2 * jnp.roll(u, 1) - 0.5 * jnp.roll(u, -1)

    def sweep(r):  # two steps of Jacobi's iteration
        return (r + (r - transport(r / 3))) / 3

    solver = implicit.Krylov(implicit.GMRES(), rtol=1e-8, preconditioner=sweep)
    implicit.linear_solve(transport, jnp.arange(100.0), linear_solver=solver)
    ```

    No matrix is made. What has not converged after `max_steps` products is NaN.

    **Arguments**

    - `method`: `GMRES()`, `FGMRES()`, `BiCGStab()`; `CG()` for symmetric positive
        definite and `MINRES()` for symmetric systems.
    - `rtol`, `atol`: None is the 3/4 power of the coarsest precision, 2e-12 in float64.
    - `max_steps`: products with the operator.
    - `preconditioner`: v ↦ M⁻¹ v, linear, a function or an Equinox module whose arrays
        may be traced; None is the identity. Adjoints use its transpose.
    - `inner`: the inner product of two pytrees. Inside `shard_map`, where each device
        holds a part of the vectors, it has to sum over the mesh: `lambda a, b:
        jax.lax.psum(jnp.sum(a * b), "cell")`.

    **Good values:** `rtol` a tenth of the relative error that the derivative may have,
    and above the precision times the condition number: a direct solve leaves 2e-13 on a
    Laplacian of 500 points in float64, and 16 times that on 2000.

    **Limits:** a singular system that has solutions gets one of them; the condition of
    its `Solution` is infinite, and no RESULTS says so, where `Dense()` fails
    (mathematics: no matrix is known). `FGMRES` with a preconditioner that is not linear
    has no transpose; give the adjoint its own by `ForwardAdjointSolvers` (mathematics).
    """

    method: AbstractKrylovMethod = eqx.field(
        default=GMRES(),
        converter=lambda method: instance(
            "method", method, AbstractKrylovMethod, "implicit.GMRES()"
        ),
    )
    rtol: float | None = None
    atol: float = 0.0
    max_steps: int = eqx.field(static=True, default=1000, kw_only=True)
    preconditioner: Callable[[Any], Any] | None = eqx.field(default=None, kw_only=True)
    inner: Inner = eqx.field(static=True, default=inner_product, kw_only=True)

    def __check_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)

    def prepare(self, operator, y, hint=None, *, transposed=False):
        """Nothing is prepared: each solve is by products alone."""

    def solve(self, state, operator, b):
        return self.solve_to_tolerance(operator, b, self.tolerance(b))

    def solve_transpose(self, state, transposed, b):
        if self.preconditioner is None:
            return self.solve_to_tolerance(transposed, b, self.tolerance(b))
        turned = jax.linear_transpose(self.preconditioner, b)
        return self.solve_to_tolerance(
            transposed, b, self.tolerance(b), lambda v: turned(v)[0]
        )

    def tolerance(self, b: PyTree[Array]) -> Array:
        """Norm at which the residual |b − A x| has converged."""
        rtol = machine_epsilon(b) ** 0.75 if self.rtol is None else self.rtol
        return jnp.maximum(rtol * jnp.sqrt(self.inner(b, b)), self.atol)

    def solve_to_tolerance(
        self,
        operator: Operator,
        b: PyTree[Array],
        tolerance: Array,
        precondition: Operator | None = None,
    ) -> Solved:
        """x with |b − A x| at most `tolerance`, or NaN, and its iterations."""
        if precondition is None:
            precondition = self.preconditioner or (lambda v: v)
        # Vectors have the finest precision of all leaves: their sums run over all.
        wide = _type(b)
        x, residual, steps = self.method.iterated(
            _with_wide_accumulation(operator, b),
            jax.tree.map(lambda a: a.astype(wide), b),
            precondition=_with_wide_accumulation(precondition, b),
            inner=self.inner,
            tolerance=tolerance,
            max_steps=self.max_steps,
        )
        # A residual that is NaN has not converged.
        has_converged = residual <= tolerance
        x = jax.tree.map(lambda a, like: a.astype(like.dtype), x, b)
        return jax.tree.map(lambda a: jnp.where(has_converged, a, jnp.nan), x), steps


def _with_wide_accumulation(product: Callable, like: PyTree[Array]) -> Callable:
    """A product with vectors like `like`, of vectors of their finest precision."""
    types = [leaf.dtype for leaf in jax.tree.leaves(like)]
    if len(set(types)) == 1:
        return product
    wide = _type(like)

    def widened(v):
        narrow = jax.tree.map(lambda a, b: a.astype(b.dtype), v, like)
        return jax.tree.map(lambda a: a.astype(wide), product(narrow))

    return widened


def _type(tree: PyTree[Array]):
    return jnp.result_type(*jax.tree.leaves(tree))
