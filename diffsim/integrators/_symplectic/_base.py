"""`AbstractSymplecticSolver`: leapfrog steps of given lengths, one after another."""

from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from ...simulations import AbstractOneStepSolver


class AbstractSymplecticSolver(AbstractOneStepSolver):
    r"""A symmetric composition $\Phi_h = S_{w_s h} \circ \dots \circ S_{w_1 h}$.

    $S_h$ is leapfrog, drift–kick–drift; adjacent drifts are merged. With
    $w_i = w_{s+1-i}$ the composition is symplectic and time-symmetric for any weights,
    and the weights decide its order.
    """

    #: Lengths of the leapfrog steps in units of the whole step; they add up to 1.
    weights: eqx.AbstractClassVar[tuple[float, ...]]

    time_symmetric: ClassVar[bool] = True

    @property
    def evaluations(self) -> int:
        """Force evaluations a step."""
        return len(self.weights)

    def advance(self, terms, t0, length, y, args):
        """Drifts and kicks in turn, beginning and ending with a drift."""
        x, v = y
        kicks = np.asarray(self.weights)
        drifts = (np.append(kicks, 0) + np.append(0, kicks)) / 2
        nodes = np.append(0, np.cumsum(drifts[:-1]))
        for drift, kick, node in zip(drifts, kicks, nodes, strict=False):
            t = t0 + float(node) * length
            x = _shifted(x, terms.drift(t, v, args), float(drift) * length)
            t = t0 + float(node + drift) * length
            v = _shifted(v, terms.kick(t, x, args), float(kick) * length)
        t = t0 + float(nodes[-1]) * length
        return _shifted(x, terms.drift(t, v, args), float(drifts[-1]) * length), v


def symmetric(*outer: float) -> tuple[float, ...]:
    """All weights from the outer half, outermost first: the middle one makes 1."""
    return (*outer, 1 - 2 * sum(outer), *outer[::-1])


def _shifted(y: PyTree[Array], rate: PyTree[Array], length: Array) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: a + length * b, y, rate)
