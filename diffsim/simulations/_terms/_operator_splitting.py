"""`SplitFlows`: operator splitting into two exactly solvable flows."""

import abc
from collections.abc import Callable
from typing import Any, Self

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree


class AbstractSplitFlows(diffrax.AbstractTerm[Any, Any]):
    r"""Operator splitting $\dot y = f(t, y) + g(t, y)$ with the flow of either part.

    What splitting methods need: each part moves while the other one stands still.
    Functions are given `args`, the simulation.
    """

    @abc.abstractmethod
    def first(
        self, t: Any, y: PyTree[Array], length: Array, args: Any
    ) -> PyTree[Array]:
        """The y after `length` of $f$ alone, its time held at t."""

    @abc.abstractmethod
    def second(
        self, t: Any, y: PyTree[Array], length: Array, args: Any
    ) -> PyTree[Array]:
        """The y after `length` of $g$ alone, its time held at t."""

    @abc.abstractmethod
    def with_closures_as_leaves(self, t: Array, y: PyTree[Array], args: Any) -> Self:
        """The same with what its functions close over as leaves."""

    def contr(self, t0: Any, t1: Any, **kwargs: Any) -> PyTree:
        del kwargs
        return t1 - t0

    def prod(self, vf: PyTree, control: Any) -> PyTree:
        return jax.tree.map(lambda rate: control * rate, vf)


class SplitFlows(AbstractSplitFlows):
    r"""$\dot y = f(t, y) + g(t, y)$, given by the exact flows of f and of g.

    ```python
    def rotation(t, y, length, omega):  # q' = ω p, p' = −ω q
        # omega: args, the simulation where these are its terms
        c, s = jnp.cos(omega * length), jnp.sin(omega * length)
        return c * y[0] + s * y[1], c * y[1] - s * y[0]

    def kick(t, y, length, omega):  # p' = −q³
        return y[0], y[1] - length * y[0] ** 3

    term = simulations.SplitFlows(rotation, kick)
    y, solver = (jnp.array(1.0), jnp.array(0.0)), integrators.Yoshida4()
    diffrax.diffeqsolve(term, solver, 0, 10, 0.1, y, args=2.0).ys
    ```

    `Leapfrog` is Strang's splitting of it, first–second–first, `Yoshida4` and the
    others its compositions. The vector field is how fast the flows set out, so that
    explicit solvers run it as well.

    **Arguments**

    - `first`: `first(t, y, length, args)`, the y after `length` of f alone, with its
        time held at t; it undoes itself where `length` changes its sign. The one that
        costs less, for it is asked once more a step.
    - `second`: the same of g.
    """

    f_first: Callable[..., PyTree[Array]]
    f_second: Callable[..., PyTree[Array]]

    def __init__(self, first: Callable[..., PyTree], second: Callable[..., PyTree]):
        self.f_first = first
        self.f_second = second

    def first(self, t: Any, y: PyTree, length: Array, args: Any) -> PyTree:
        return self.f_first(t, y, length, args)

    def second(self, t: Any, y: PyTree, length: Array, args: Any) -> PyTree:
        return self.f_second(t, y, length, args)

    def with_closures_as_leaves(self, t: Array, y: PyTree, args: Any) -> "SplitFlows":
        length = jnp.zeros_like(t)
        flows = (self.f_first, self.f_second)
        return SplitFlows(
            *(eqx.filter_closure_convert(f, t, y, length, args) for f in flows)
        )

    def vf(self, t: Any, y: PyTree, args: Any) -> PyTree:
        kind = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
        length, one = jnp.zeros((), kind), jnp.ones((), kind)

        def rate(flow):
            return jax.jvp(lambda h: flow(t, y, h, args), (length,), (one,))[1]

        return jax.tree.map(jnp.add, rate(self.f_first), rate(self.f_second))
