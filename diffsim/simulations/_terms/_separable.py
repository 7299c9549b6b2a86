"""`Separable`: position and velocity, each driven by the other."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array

from ..._types import PyTree
from ._operator_splitting import AbstractSplitFlows


class Separable(AbstractSplitFlows):
    r"""$\dot x = \mathrm{drift}(t, v)$, $\dot v = \mathrm{kick}(t, x)$; state `(x, v)`.

    ```python
    def kick(t, x, g):  # g: args, the simulation where these are its terms
        return -g * jnp.sin(x)

    term = simulations.Separable(lambda t, v, g: v, kick)
    y, solver = (jnp.array(0.5), jnp.array(0.0)), integrators.Leapfrog()
    diffrax.diffeqsolve(term, solver, 0, 10, 0.01, y, args=9.81).ys
    ```

    What symplectic solvers need: each half moves while the other stands still. It is
    an ordinary vector field as well, so every explicit Diffrax solver runs it.

    **Arguments**

    - `drift`: `drift(t, v, args)`, the rate of `x`; does not see `x`.
    - `kick`: `kick(t, x, args)`, the rate of `v`; does not see `v`.
    """

    drift: Callable[[Any, PyTree[Array], Any], PyTree[Array]]
    kick: Callable[[Any, PyTree[Array], Any], PyTree[Array]]

    def vf(self, t: Any, y: PyTree, args: Any) -> PyTree:
        x, v = y
        return self.drift(t, v, args), self.kick(t, x, args)

    def first(self, t: Any, y: PyTree, length: Array, args: Any) -> PyTree:
        x, v = y
        return _shifted(x, self.drift(t, v, args), length), v

    def second(self, t: Any, y: PyTree, length: Array, args: Any) -> PyTree:
        x, v = y
        return x, _shifted(v, self.kick(t, x, args), length)

    def with_closures_as_leaves(self, t: Array, y: PyTree, args: Any) -> "Separable":
        x, v = y
        drift = eqx.filter_closure_convert(self.drift, t, v, args)
        return Separable(drift, eqx.filter_closure_convert(self.kick, t, x, args))


def _shifted(y: PyTree[Array], rate: PyTree[Array], length: Array) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: a + length * b, y, rate)
