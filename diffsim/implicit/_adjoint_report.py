"""`adjoint_report`: how well the linear system of a gradient was solved."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._linalg import matmul
from .._types import PyTree
from ._layer_arguments import check_fits, floating, in_type_of
from ._linear_solvers import AbstractLinearSolver, Dense


class AdjointReport(eqx.Module):
    r"""Adjoint at a root, and two certificates of the gradient made of it.

    - `multiplier`: $\lambda$ with $A^T \lambda = \bar y$; the gradient is
        $-B^T \lambda$.
    - `residual`: $|A^T \lambda - \bar y| / |\bar y|$, the relative error that the
        linear solve leaves, up to the condition number.
    - `iterations`: of the linear solver.
    - `error`: $|\lambda \cdot f(y)|$, what the objective would change by if f vanished,
        to first order: how far off the value is because y is not quite the root.
    """

    multiplier: PyTree[Array]
    residual: Float[Array, ""]
    iterations: Int[Array, ""]
    error: Float[Array, ""]


def adjoint_report(
    residual: Callable[[PyTree[Array], Any], PyTree[Array]],
    y: PyTree[Any],
    args: PyTree,
    cotangent: PyTree[Any],
    *,
    linear_solver: AbstractLinearSolver | None = None,
) -> AdjointReport:
    r"""Solve $A^T \lambda = \bar y$ at the root y of `residual`, and check the answer.

    ```python
    def balance(y, heating):
        return heating + 0.1 * y - y**4

    y = implicit.root(balance, 1.0, 1.2)
    report = implicit.adjoint_report(balance, y, 1.2, jnp.ones_like(y))
    report.residual, report.error  # of the gradient of y, and of y
    ```

    **Arguments**

    - `residual`, `args`: as for `root`.
    - `y`: the root that was found, roughly or well.
    - `cotangent`: $\bar y$, the gradient of the objective by y, like `y`.
    - `linear_solver`: that of the adjoint; None is `Dense()`.

    **Raises:** `ValueError` for `y` or `cotangent` that are not floating or do not fit.
    """
    y, bar = floating("y", y), floating("cotangent", cotangent)
    y, value = in_type_of("residual", residual, y, args)
    check_fits("residual", "y", y, value)
    check_fits("cotangent", "y", y, bar)
    bar = jax.tree.map(lambda a, like: a.astype(like.dtype), bar, value)
    linear_solver = Dense() if linear_solver is None else linear_solver
    return _report(residual, y, args, bar, linear_solver)


@eqx.filter_jit
def _report(
    residual, y, args, bar, linear_solver: AbstractLinearSolver
) -> AdjointReport:
    value, pull = jax.vjp(lambda z: residual(z, args), y)

    def transposed(v):
        return pull(v)[0]

    state = linear_solver.prepare(transposed, y, transposed=True)
    multiplier, steps = linear_solver.solve_transpose(state, transposed, bar)
    rest = jax.tree.map(jnp.subtract, transposed(multiplier), bar)
    size = jnp.linalg.norm(ravel_pytree(bar)[0])
    return AdjointReport(
        multiplier,
        jnp.linalg.norm(ravel_pytree(rest)[0]) / jnp.where(size == 0, 1, size),
        steps,
        jnp.abs(matmul(ravel_pytree(multiplier)[0], ravel_pytree(value)[0])),
    )
