"""`AbstractUnsynchronizedSolver`: steps that hand on a state of their own."""

import abc
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ._explicit_step import AbstractSplittingSolver


class AbstractUnsynchronizedSolver(AbstractSplittingSolver):
    r"""A splitting solver $\Psi^{-1} \circ \Phi^n \circ \Psi$, steps $\Phi$ inside.

    What ends one step and begins the next is done once: $\Psi$ goes over to the
    coordinates of the steps, takes the first part of a step and whatever correction
    belongs to it, and is undone where the state is wanted. Lengths may be of either
    sign, and all maps have exact inverses.
    """

    @abc.abstractmethod
    def constants(self, args: Any) -> PyTree:
        """Return the numbers that all steps of a run need of the simulation `args`."""

    @abc.abstractmethod
    def enter(
        self, constants: Any, terms: Any, t: Any, length: Array, y: PyTree, args: Any
    ) -> PyTree[Array]:
        """Ψ: the inner state, where steps of `length` begin, of the state y at t."""

    @abc.abstractmethod
    def leave(
        self, constants: Any, terms: Any, t: Any, length: Array, z: PyTree, args: Any
    ) -> PyTree[Array]:
        """The state at t of the inner state z: the inverse of `enter`."""

    @abc.abstractmethod
    def forth(
        self, constants: Any, terms: Any, t: Any, length: Array, z: PyTree, args: Any
    ) -> PyTree[Array]:
        """Φ: the inner state that belongs to `t + length`, from z, that of t."""

    @abc.abstractmethod
    def back(
        self, constants: Any, terms: Any, t: Any, length: Array, z: PyTree, args: Any
    ) -> PyTree[Array]:
        """The inner state that belongs to t, from z, that of `t + length`."""

    def advance(
        self, terms: Any, t0: Any, length: Array, y: PyTree[Array], args: Any
    ) -> PyTree[Array]:
        """A step from one state to the next."""
        constants, length = self.constants(args), jnp.asarray(length)
        z = self.enter(constants, terms, t0, length, y, args)
        z = self.forth(constants, terms, t0, length, z, args)
        return self.leave(constants, terms, t0 + length, length, z, args)
