"""Base classes of splitting methods, whose steps are explicit maps of the state."""

import abc
from typing import Any, ClassVar

import diffrax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from .._terms._imex import unwrap_terms
from .._terms._operator_splitting import AbstractSplitFlows


class AbstractSplittingSolver(diffrax.AbstractSolver[None]):
    """A solver of `Separable` dynamics or `SplitFlows` whose step maps the state alone.

    It has no memory and no error estimate. Subclasses say `advance`, and with
    `term_structure` whether they serve one kind only; Diffrax sees a solver like any
    other.
    """

    term_structure: ClassVar[Any] = AbstractSplitFlows
    #: Whether a step of length −h undoes a step of length h.
    time_symmetric: ClassVar[bool] = False
    interpolation_cls: ClassVar[Any] = diffrax.LocalLinearInterpolation

    @property
    @abc.abstractmethod
    def evaluations(self) -> int:
        """Evaluations of the vector field a step."""

    @abc.abstractmethod
    def advance(
        self, terms: Any, t0: Any, length: Array, y: PyTree[Array], args: Any
    ) -> PyTree[Array]:
        """The state at `t0 + length`, from `y` at `t0`."""

    def init(self, terms: Any, t0: Any, t1: Any, y0: PyTree, args: Any) -> None:
        del terms, t0, t1, y0, args

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: PyTree,
        args: Any,
        solver_state: None,
        made_jump: Any,
    ) -> tuple[PyTree, None, dict[str, PyTree], None, diffrax.RESULTS]:
        del solver_state, made_jump
        found = unwrap_terms(
            terms, AbstractSplitFlows, jnp.asarray(t0), jnp.asarray(t1)
        )
        assert found is not None
        term, sign = found
        y1 = self.advance(term, sign * t0, sign * (t1 - t0), y0, args)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: PyTree, args: Any) -> PyTree:
        return terms.vf(t0, y0, args)


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
