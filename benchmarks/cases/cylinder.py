"""A cylinder in a channel (DFG 2D-1): drag, lift and pressure beside published ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from diffsim import pde

from .._harness import Case, Effort, Row, compiled, once


#: Schäfer and Turek 1996 (10.1007/978-3-322-89849-4_39), refined by Nabh 1998.
_DRAG, _LIFT, _PRESSURE = 5.57953523384, 0.010618948146, 0.11752016697
_LENGTH, _HEIGHT, _DIAMETER, _FASTEST = 2.2, 0.41, 0.1, 0.3
#: The body lets in √(νη) = 0.001, and is a quarter of a cell sharp.
_PERMEABLE, _SHARP = 1e-3, 0.25


def measure(effort: Effort) -> list[Row]:
    """The steady flow, and how its drag follows the viscosity."""
    across = effort.size(40, 3)

    def seen(viscosity):
        flow = channel(across, viscosity)
        drag, pressure = pde.steady_state(
            flow,
            observe=lambda t, y: (flow.force(t, y), flow.pressure(t, y)),
            throw=False,
        )
        ends = jnp.array([[0.15, 0.2], [0.25, 0.2]])
        before, behind = pde.probe(
            pressure, ends, pde.Domain(flow.grid, pde.Neumann(0.0))
        )
        mean = 2 / 3 * _FASTEST
        return jnp.append(2 * drag / (mean**2 * _DIAMETER), before - behind)

    run = compiled(seen, 1e-3)
    both = compiled(jax.value_and_grad(lambda v: seen(v)[0]), 1e-3)
    seconds, gradient = once(run), once(both)
    drag, lift, pressure = map(float, np.asarray(run.value))
    return [
        Row(
            f"drag on a cylinder at Re 20, {across} cells across, steady",
            100 * abs(drag / _DRAG - 1),
            unit="% off",
            target=3.0,
            seconds=seconds,
            error=abs(drag / _DRAG - 1),
            reference="DFG 2D-1",
            compile_seconds=run.compile_seconds,
            memory_bytes=run.memory_bytes,
            details={
                "drag": [drag, _DRAG],
                "lift": [lift, _LIFT],
                "pressure difference": [pressure, _PRESSURE],
                "seconds of value and gradient": gradient,
                "slope of the drag by the viscosity": float(both.value[1]),
            },
        )
    ]


CASE = Case("cylinder", __doc__ or "", measure)


def channel(across: int, viscosity: Any) -> pde.IncompressibleFlow:
    """So many cells across the cylinder, from the flow of the empty channel."""
    dx = _DIAMETER / across
    shape = round(_LENGTH / dx), round(_HEIGHT / dx)
    grid = pde.Grid(shape, (0.0, 0.0), (_LENGTH, _HEIGHT))
    body = pde.Obstacle(
        pde.Ball((0.2, 0.2), _DIAMETER / 2),
        penalization_time=_PERMEABLE,
        mask_width=_SHARP * dx,
    )

    def inlet(t: Any, x: Array) -> Array:
        parabola = 4 * x[1] * (_HEIGHT - x[1]) / _HEIGHT**2
        return jnp.stack([_FASTEST * parabola, 0 * x[1]])

    walls = ((pde.Inflow(inlet), pde.Outflow()), pde.NoSlip())
    return pde.IncompressibleFlow(
        viscosity, grid, walls, obstacle=body, initial=lambda x: inlet(0.0, x)
    )
