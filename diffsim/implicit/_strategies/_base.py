"""`AbstractLinear`: how the linear systems of a derivative are solved."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree


#: v ↦ A v for pytrees like the unknown.
Operator = Callable[[PyTree[Array]], PyTree[Array]]


class AbstractLinear(eqx.Module):
    r"""Solves $A x = b$ and $A^T x = b$ with what was prepared once for both.

    $A = \partial f/\partial y$ at the solution, given as a function $v \mapsto A v$.
    Tangents, adjoints and derivatives of any order come here.
    """

    @abc.abstractmethod
    def prepared(self, operator: Operator, y: PyTree[Array]) -> Any:
        """What both solves share, a factorization for instance."""

    @abc.abstractmethod
    def solved(self, state: Any, operator: Operator, b: PyTree[Array]) -> PyTree[Array]:
        """x with A x = b."""

    @abc.abstractmethod
    def solved_transposed(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> PyTree[Array]:
        """x with Aᵀ x = b; `transposed` is v ↦ Aᵀ v."""
