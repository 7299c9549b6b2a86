"""`LeftPreconditionedKrylov`: Jacobians of rates, preconditioned from the left."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array

from ..._types import PyTree
from ...implicit import AbstractLinearSolver, Krylov


class AbstractJacobianPreconditioner(eqx.Module):
    """Preconditioner M⁻¹ of a Jacobian: of a rate it makes about the distance to go."""

    @abc.abstractmethod
    def at(self, operator: Callable, y: PyTree[Array]) -> Callable:
        """v ↦ M⁻¹ v, a linear pytree, where the Jacobian of the rate is `operator`."""


class LeftPreconditionedKrylov(AbstractLinearSolver):
    r"""A Krylov method for $M^{-1} A x = M^{-1} b$ and $M^{-T} A^T x = M^{-T} b$.

    From the left, both: what rounding leaves of b − A x is rough and may be larger than
    the tolerance, which M⁻¹ knows to be little.
    """

    krylov: Krylov
    preconditioner: AbstractJacobianPreconditioner

    def prepare(self, operator, y, hint=None, *, transposed=False):
        del hint, transposed
        return self.preconditioner.at(operator, y)

    def solve(self, state, operator, b):
        return self._solve_from_left(state, operator, b)

    def solve_transpose(self, state, transposed, b):
        turned = jax.linear_transpose(state, b)
        return self._solve_from_left(lambda v: turned(v)[0], transposed, b)

    def _solve_from_left(self, inverse: Callable, operator: Callable, b: Any):
        b = inverse(b)
        tolerance = self.krylov.tolerance(b)
        return self.krylov.solve_to_tolerance(
            lambda v: inverse(operator(v)), b, tolerance
        )
