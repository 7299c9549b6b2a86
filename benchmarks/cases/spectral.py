"""Equations in Fourier space beside exponax: a step, its gradient, its memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffsim import pde, simulations

from .._harness import Case, Effort, Row, compiled, contest, deviation, memory_of, ratio
from .._peers import peer
from . import _vortices as vortices


#: Of a flame: three cells a unit of length, as in published runs.
_SPACING, _FLAME_STEP = 0.3, 0.05


def measure(effort: Effort) -> list[Row]:
    """Flow and flames on a line, then what derivatives of the flow take."""
    plane, steps = vortices.vorticity(effort.size(256, 8)), effort.size(50, 2)
    rows = [row for order in (4, 2) for row in _flow(effort, plane, steps, order)]
    space = vortices.velocity(effort.size(64, 6))
    rows += _flow(effort, space, effort.size(10, 2), 2)
    for points in (128, 512, 2048):
        points = effort.size(points, 16)
        rows += _flame(effort, points, effort.size(1000, 2))
    return [*rows, *_gradients(effort, effort.size(256, 8), effort.size(100, 4))]


CASE = Case("spectral", __doc__ or "", measure)


def _flow(effort: Effort, start: Any, steps: int, order: int) -> list[Row]:
    def theirs(chain):
        return vortices.peer_flow(start, steps, order=order, chain=chain)

    def ours(u):
        return vortices.flow(u, vortices.VISCOSITY, steps, order=order)

    cells = " × ".join(map(str, start.shape[1:]))
    what = f"Navier–Stokes, {cells}, {steps} steps of ETDRK{order}"
    return _beside(effort, what, ours, theirs, start)


def _flame(effort: Effort, n: int, steps: int) -> list[Row]:
    length = _SPACING * n
    grid = pde.Grid(n, 0.0, length)
    phase = 2 * np.pi * grid.centers / length
    start = jnp.cos(phase) * (1 + jnp.sin(3 * phase))
    stepper = peer("exponax").stepper.KuramotoSivashinskyConservative(
        1, length, n, _FLAME_STEP, order=4
    )

    def ours(u):
        flame = pde.Evolution(pde.KuramotoSivashinsky(), u, grid)
        method = simulations.Method(vortices.SOLVERS[4], _FLAME_STEP)
        return simulations.simulate(flame, steps * _FLAME_STEP, method).states

    what = f"Kuramoto–Sivashinsky, {n} points, {steps} steps of ETDRK4"
    return _beside(effort, what, ours, lambda chain: chain(stepper, steps), start)


def _beside(effort: Effort, what: str, ours, theirs, start: Any) -> list[Row]:
    """Beside exponax's steps from field to field, and from modes to modes as ours."""
    programs = {
        "ours": compiled(ours, start),
        "theirs": compiled(theirs(vortices.repeated), start),
        "within_modes": compiled(theirs(vortices.within_modes), start),
    }
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    kinds = {"theirs": ("", "exponax", 1.0)}
    kinds["within_modes"] = ", within Fourier space", "exponax's RepeatedStepper", None
    return [
        ratio(
            what + suffix,
            times["ours"],
            times[kind],
            program=programs["ours"],
            peer=named,
            target=target,
            error=deviation(programs["ours"].value, programs[kind].value),
            reference="exponax",
        )
        for kind, (suffix, named, target) in kinds.items()
    ]


def _gradients(effort: Effort, n: int, steps: int) -> list[Row]:
    """Of the sum of squares, in the initial field and the viscosity."""
    given = vortices.vorticity(n), jnp.asarray(vortices.VISCOSITY)
    kinds = {"kept": None, "checkpointed": simulations.Checkpointed()}

    def loss(adjoint: Any, steps: int) -> Callable[..., Any]:
        def value(w, viscosity):
            end = vortices.flow(w, viscosity, steps, order=4, adjoint=adjoint)
            return jnp.sum(end**2)

        return value

    programs = {"run": compiled(loss(None, steps), *given)}
    for kind, adjoint in kinds.items():
        gradient = jax.value_and_grad(loss(adjoint, steps), (0, 1))
        programs[kind] = compiled(gradient, *given)
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    what = f"Navier–Stokes, {n} × {n}, value and gradient of {steps} steps of ETDRK4"
    rows = [
        ratio(
            f"{what}, {kind}",
            times[kind],
            times["run"],
            program=programs[kind],
            peer="its own run",
            target=target,
        )
        for kind, target in (("kept", 4.0), ("checkpointed", 5.5))
    ]
    return [*rows, _growth(given, steps, loss)]


def _growth(given: Any, steps: int, loss: Callable[..., Any]) -> Row:
    """Of the memory with checkpoints, from as many steps to four times as many."""
    used = [
        memory_of(
            jax.jit(jax.grad(loss(simulations.Checkpointed(), count), (0, 1)))
            .lower(*given)
            .compile()
        )
        for count in (steps, 4 * steps)
    ]
    return Row(
        f"Navier–Stokes, memory of {4 * steps} checkpointed steps",
        used[1] / used[0],
        peer=f"that of {steps} steps, whose square root it is to follow",
        target=2.2,
        details={"bytes": dict(zip((steps, 4 * steps), used, strict=True))},
    )
