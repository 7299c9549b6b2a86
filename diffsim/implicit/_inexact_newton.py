"""`AbstractInexactNewton`: Newton's method by linear solves as exact as they help."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array

from .._types import PyTree
from ._linear_solvers import AbstractLinearSolver, Krylov


class AbstractInexactNewton(optx.AbstractRootFinder[Any, Any, Any, Any]):
    r"""Root-finder whose steps are solved for by a Krylov method, to $\eta\,|f|$.

    How the steps go is the method's: its `init` and `step` keep a state with `left`,
    what is left after the last step over its tolerances, and `failed`, whether there is
    no next one. It ends where `left` is one or less, or with `nonlinear_divergence`.
    """

    linear_solver: eqx.AbstractVar[AbstractLinearSolver]

    def __check_init__(self) -> None:
        if not isinstance(self.linear_solver, Krylov):
            raise ValueError(
                f"linear_solver must be an implicit.Krylov, got "
                f"{self.linear_solver!r:.60}; implicit.Newton takes every linear solver"
            )

    def terminate(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        state: Any,
        tags: Any,
    ) -> tuple[Array, optx.RESULTS]:
        del fn, y, args, options, tags
        results: Any = optx.RESULTS
        done = state.left <= 1
        stuck = state.failed & ~done
        return done, results.where(
            stuck, results.nonlinear_divergence, results.successful
        )

    def postprocess(
        self,
        fn: Any,
        y: PyTree,
        aux: PyTree,
        args: Any,
        options: dict[str, Any],
        state: Any,
        tags: Any,
        result: Any,
    ) -> tuple[PyTree, PyTree, dict[str, Any]]:
        del fn, args, options, state, tags, result
        return y, aux, {}

    def _solve_to_tolerance(self, operator, b: PyTree[Array], tolerance: Array):
        """s with |b − A s| at most `tolerance`, or NaN."""
        assert isinstance(self.linear_solver, Krylov)
        return self.linear_solver.solve_to_tolerance(operator, b, tolerance)[0]

    def _length(self, f: PyTree[Array]) -> Array:
        """|f| by the inner product of the Krylov method."""
        assert isinstance(self.linear_solver, Krylov)
        return jnp.sqrt(self.linear_solver.inner(f, f))
