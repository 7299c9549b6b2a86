"""`AbstractEllipticSolver` and `AbstractPreconditioner`."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array

from ..._types import PyTree
from ._helmholtz_operator import HelmholtzOperator


class PreparedOperator(NamedTuple):
    """A system, and what a solver prepared for it."""

    system: HelmholtzOperator
    state: Any


class AbstractEllipticSolver(eqx.Module):
    r"""Solver of $A u = b$ for the operator of an elliptic problem on a grid.

    Values, tangents and adjoints come here, one field at a time. Of a singular A, `b`
    has no mean, and that of the answer does not matter. What does not converge is NaN.
    """

    @abc.abstractmethod
    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        """Say why this cannot solve a system, and what can; or nothing.

        If not `exact`, why it cannot precondition another solver.
        """

    @abc.abstractmethod
    def prepare(self, system: HelmholtzOperator) -> PyTree:
        """Prepare what all solves with a system share: coarse grids, eigenvalues."""

    @abc.abstractmethod
    def solve(
        self,
        known: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        """Solve A u = b; return u and the iterations it took.

        `operator` is v ↦ A v, or v ↦ Aᵀ v; they differ where ghosts follow from more
        than the one cell beside them.
        """


class AbstractPreconditioner(AbstractEllipticSolver):
    """A solver that is one linear map, which can precondition a Krylov method."""

    @abc.abstractmethod
    def apply_preconditioner(self, known: PreparedOperator, b: Array) -> Array:
        """Apply M⁻¹ to b, of a symmetric positive definite M that is near to A."""
