"""`Separable`: dynamics whose two halves drive each other."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
from jaxtyping import Array, PyTree


class Separable(diffrax.AbstractTerm):
    r"""$\dot x = \mathrm{drift}(t, v)$, $\dot v = \mathrm{kick}(t, x)$; state `(x, v)`.

    What symplectic solvers need: each half moves while the other stands still. It is
    an ordinary vector field as well, so every explicit Diffrax solver runs it.

    **Arguments**

    - `drift`: `drift(t, v, args)`, the rate of `x`; does not see `x`.
    - `kick`: `kick(t, x, args)`, the rate of `v`; does not see `v`.
    """

    drift: Callable[[Any, PyTree[Array], Any], PyTree[Array]]
    kick: Callable[[Any, PyTree[Array], Any], PyTree[Array]]

    def vf(self, t, y, args):
        x, v = y
        return self.drift(t, v, args), self.kick(t, x, args)

    def contr(self, t0, t1, **kwargs):
        del kwargs
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda rate: control * rate, vf)
