"""A cavity under a lid: the extremes on its center lines beside published ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from diffsim import pde

from .._harness import Case, Effort, Row, compiled, once


#: Least u on x = ½, most and least v on y = ½: Marchi et al. 2009
#: (10.1590/S1678-58782009000300004), Botella and Peyret 1998
#: (10.1016/S0045-7930(98)00002-4).
PUBLISHED = {
    100: (-0.2140417, 0.1795728, -0.2538030),
    1000: (-0.3885698, 0.3769447, -0.5270771),
}
_BARS = {100: 0.5, 1000: 1.5}


def measure(effort: Effort) -> list[Row]:
    """The steady flow, and how the strongest return flow follows the viscosity."""
    return [_row(reynolds, effort.size(128, 16)) for reynolds in PUBLISHED]


CASE = Case("cavity", __doc__ or "", measure)


def cavity(n: int, viscosity: Any) -> pde.IncompressibleFlow:
    """Of n × n cells, at rest."""
    lid = pde.NoSlip((1.0, 0.0))
    walls = (pde.NoSlip(), (pde.NoSlip(), lid))
    return pde.IncompressibleFlow(viscosity, pde.Grid((n, n)), walls)


def extremes(velocities: tuple[Array, ...]) -> Array:
    """Those of `PUBLISHED`, from velocities on all faces of an even number of cells."""
    u, v = velocities
    up, across = u[len(u) // 2], v[:, v.shape[1] // 2]
    return jnp.stack([-_most(-up), _most(across), -_most(-across)])


def _most(line: Array) -> Array:
    """On the parabola through the largest and its neighbors."""
    k = jnp.argmax(line)
    low, top, high = line[k - 1], line[k], line[k + 1]
    return top + (high - low) ** 2 / (8 * (2 * top - low - high))


def _row(reynolds: int, n: int) -> Row:
    def seen(viscosity):
        flow = cavity(n, viscosity)
        return extremes(pde.steady_state(flow, observe=flow.velocities, throw=False))

    run = compiled(seen, 1 / reynolds)
    both = compiled(jax.value_and_grad(lambda v: seen(v)[0]), 1 / reynolds)
    seconds, gradient = once(run), once(both)
    found, exact = np.asarray(run.value), np.array(PUBLISHED[reynolds])
    off = np.abs(found / exact - 1)
    return Row(
        f"cavity at Re {reynolds}, {n} × {n}, steady, the worst of three extremes",
        100 * float(np.max(off)),
        unit="% off",
        target=_BARS[reynolds],
        seconds=seconds,
        error=float(np.max(off)),
        reference="Marchi 2009" if reynolds == 100 else "Botella and Peyret 1998",
        compile_seconds=run.compile_seconds,
        memory_bytes=run.memory_bytes,
        details={
            "least u, most v, least v": found.tolist(),
            "published": list(PUBLISHED[reynolds]),
            "seconds of value and gradient": gradient,
            "slope of the least u by the viscosity": float(both.value[1]),
        },
    )
