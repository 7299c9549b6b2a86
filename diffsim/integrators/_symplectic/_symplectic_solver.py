"""`AbstractSymplecticSolver`: leapfrog steps of given lengths, one after another."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ... import _tuning
from ..._types import PyTree
from ...simulations import AbstractSplittingSolver


class AbstractSymplecticSolver(AbstractSplittingSolver):
    r"""Symmetric composition $\Phi_h = S_{w_s h} \circ \dots \circ S_{w_1 h}$.

    $S_h$ is leapfrog, drift–kick–drift, or Strang's splitting of `SplitFlows`,
    first–second–first; adjacent drifts are merged. With $w_i = w_{s+1-i}$ the
    composition is time-symmetric for any weights, and symplectic if both flows are; the
    weights decide its order.
    """

    #: Lengths of the leapfrog steps in units of the whole step; they add up to 1.
    weights: eqx.AbstractVar[tuple[float, ...]]

    time_symmetric: ClassVar[bool] = True

    @property
    def evaluations(self) -> int:
        """Force evaluations a step."""
        return len(self.weights)

    def advance(
        self, terms: Any, t0: Any, length: Array, y: PyTree[Array], args: Any
    ) -> PyTree[Array]:
        """Both flows in turn, beginning and ending with the first."""
        weights = np.asarray(self.weights)
        firsts = (np.append(weights, 0) + np.append(0, weights)) / 2
        starts = np.append(0, np.cumsum(weights)[:-1])

        def one(y, stage):
            start, first, second = stage
            y = terms.first(t0 + start * length, y, first * length, args)
            middle = t0 + (start + second / 2) * length
            return terms.second(middle, y, second * length, args), None

        stages = np.stack([starts, firsts[:-1], weights], axis=1)
        if weights.size > _tuning.SUBSTEPS_WRITTEN_OUT:
            y, _ = jax.lax.scan(one, y, jnp.asarray(stages, jnp.result_type(length)))
        else:
            for stage in stages.tolist():
                y, _ = one(y, stage)
        return terms.first(t0 + length, y, float(firsts[-1]) * length, args)


def symmetric(*outer: float) -> tuple[float, ...]:
    """All weights from the outer half, outermost first: the middle one makes 1."""
    return (*outer, 1 - 2 * sum(outer), *outer[::-1])
