"""Dense output of IMEX methods."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree
from ._tableau import add_scaled, stacked_linear_combination


class AbstractDense(diffrax.AbstractLocalInterpolation):
    r"""Dense output $y(t_0 + \theta h) = y_0 + h \sum_i b_i(\theta)\,(k_i + \hat k_i)$.

    As Diffrax's, in the type of the state: its own is in double precision wherever JAX
    has that enabled.
    """

    t0: Any
    t1: Any
    y0: PyTree[Array]
    change: PyTree[Array]

    #: Of b_i(θ)/θ, the highest power first.
    powers: eqx.AbstractClassVar[np.ndarray]

    def __init__(self, *, t0, t1, y0, y1, k):
        del y1
        self.t0 = t0
        self.t1 = t1
        self.y0 = y0
        self.change = jax.tree.map(jnp.add, *k)

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            first, last = self.evaluate(t0, left=left), self.evaluate(t1, left=left)
            return jax.tree.map(jnp.subtract, last, first)
        span = jnp.where(self.t1 == self.t0, 1, self.t1 - self.t0)
        where = (t0 - self.t0) / span
        powers = jnp.asarray(self.powers, where.dtype)
        weights = where * jax.vmap(jnp.polyval, in_axes=(0, None))(powers, where)
        one = jnp.ones_like(where)
        return add_scaled(
            self.y0, one, stacked_linear_combination(weights, self.change)
        )


class Dense3(AbstractDense):
    """Dense output of KenCarp3, of order 2."""

    powers = diffrax.KenCarp3.interpolation_cls.coeffs


class Dense4(AbstractDense):
    """Dense output of KenCarp4, of order 3."""

    powers = diffrax.KenCarp4.interpolation_cls.coeffs


class Dense5(AbstractDense):
    """Dense output of KenCarp5, of order 3."""

    powers = diffrax.KenCarp5.interpolation_cls.coeffs
