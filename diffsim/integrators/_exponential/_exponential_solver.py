"""`AbstractExponentialSolver`: the linear part exactly, the other one by stages."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ...simulations import AbstractIMEXTerm, Semilinear


#: z ↦ N̂(t + c h, z), by c.
Stage = Callable[[float, Array], Array]


class AbstractExponentialSolver(diffrax.AbstractSolver[None]):
    r"""Exponential integrator of a semilinear system, at fixed steps:

    $$\dot{\hat y} = L\hat y + \hat N(t, \hat y), \quad L \text{ diagonal}.$$

    The linear part is exact however stiff or fast it is, so a step is as long as the
    other part allows. Subclasses say what functions of h L they need, which runs at
    fixed steps work out once, and what a step is.
    """

    #: Functions by `precompute` for the steps of a run, None where each has its own.
    table: eqx.AbstractVar[Any]

    term_structure: ClassVar[Any] = Semilinear
    interpolation_cls: ClassVar[Any] = diffrax.LocalLinearInterpolation

    @abc.abstractmethod
    def functions(self, z: Array, length: Array) -> PyTree:
        """Functions of z = h L that a step of the length h multiplies by."""

    @abc.abstractmethod
    def advance(self, table: Any, stage: Stage, z: Array) -> Array:
        """The state a step after z, in transformed variables."""

    def precompute(self, terms: Any, length: Array) -> "AbstractExponentialSolver":
        """Return the same solver, for steps of this length only."""
        return eqx.tree_at(
            lambda s: s.table,
            self,
            self._functions(terms, length),
            is_leaf=lambda x: x is None,
        )

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
        unwrapped = AbstractIMEXTerm.unwrap(terms, jnp.asarray(t0), jnp.asarray(t1))
        assert unwrapped is not None
        term, sign = unwrapped
        assert isinstance(term, Semilinear)
        length = sign * (t1 - t0)
        table = self.table
        if table is None:
            table = self._functions(term, length)

        def stage(node: float, z: Array) -> Array:
            return term.nonlinear(sign * t0 + node * length, z, args)

        y1 = term.backward(self.advance(table, stage, term.forward(y0)))
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: PyTree, args: Any) -> PyTree:
        return terms.vf(t0, y0, args)

    def _functions(self, term: Semilinear, length: Array) -> PyTree:
        real = jnp.finfo(term.symbol.dtype).dtype
        length = length.astype(real)
        return self.functions(length * term.symbol, length)
