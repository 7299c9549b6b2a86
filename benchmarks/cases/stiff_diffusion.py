"""Implicit steps of nonlinear diffusion: their time, and memory of their gradient."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import optimistix as optx

from diffsim import implicit, integrators, simulations

from .._harness import Case, Effort, Row, compiled, contest, deviation, memory_of, ratio


#: Of both codes: what Newton's method may leave in a stage.
_TOLERANCE = 1e-10
_STEP = 1e-3


class Diffusion(simulations.AbstractSimulation):
    """u_t = (D(u) u_x)_x with D = 0.1 + u² / 2 on (0, 1), zero at both ends."""

    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        def rate(t, u, args):
            dx = 1 / (u.size + 1)
            u = jnp.pad(u, 1)
            flux = (0.1 + (u[1:] + u[:-1]) ** 2 / 8) * jnp.diff(u) / dx
            return jnp.diff(flux) / dx

        return diffrax.ODETerm(rate)

    def default_method(self):
        return simulations.Method(_ours(), _STEP)


def measure(effort: Effort) -> list[Row]:
    """Ours on many points, and beside Diffrax's on as many as its matrices allow."""
    large, small = effort.size(10_000, 40), effort.size(500, 20)
    steps = effort.size(20, 2)
    return [*_alone(effort, large, steps), *_beside_diffrax(effort, small, steps)]


CASE = Case("stiff_diffusion", __doc__ or "", measure)


def _alone(effort: Effort, points: int, steps: int) -> list[Row]:
    start = _start(points)
    programs = {
        name: compiled(function(_ours(), steps), start)
        for name, function in (("run", _loss), ("gradient", _gradient))
    }
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    what = f"Kvaerno3 on {points} points, Tridiagonal"
    rows = [
        Row(
            f"{what}: a step",
            1e3 * times["run"].best / steps,
            unit="ms",
            seconds=times["run"].best,
            compile_seconds=programs["run"].compile_seconds,
            memory_bytes=programs["run"].memory_bytes,
            noise=times["run"].noise,
            away=times["run"].away,
        ),
        ratio(
            f"{what}: gradient of {steps} steps",
            times["gradient"],
            times["run"],
            program=programs["gradient"],
            peer="its own run",
        ),
    ]
    return [
        *rows,
        _memory(f"{what}: memory a further step takes", _ours(), start, steps),
    ]


def _beside_diffrax(effort: Effort, points: int, steps: int) -> list[Row]:
    start, solvers = _start(points), {"ours": _ours(), "theirs": _diffrax()}
    programs = {
        f"{name} {whose}": compiled(function(solver, steps), start)
        for name, function in (("run", _loss), ("gradient", _gradient))
        for whose, solver in solvers.items()
    }
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    rows = []
    for name in ("run", "gradient"):
        mine, other = f"{name} ours", f"{name} theirs"
        rows.append(
            ratio(
                f"{name} of {steps} steps of Kvaerno3 on {points} points",
                times[mine],
                times[other],
                program=programs[mine],
                peer="Diffrax's Kvaerno3, dense",
                target=1.0,
                error=deviation(programs[mine].value, programs[other].value),
                reference="Diffrax",
                details={"bytes of Diffrax": programs[other].memory_bytes},
            )
        )
    for whose, solver in solvers.items():
        what = f"Kvaerno3 on {points} points, {whose}: memory a further step takes"
        rows.append(_memory(what, solver, start, steps))
    return rows


def _memory(what: str, solver: Any, start: Any, steps: int) -> Row:
    """Of the gradient, in states."""
    used = [
        memory_of(jax.jit(_gradient(solver, n)).lower(start).compile())
        for n in (steps, 2 * steps)
    ]
    grown = (used[1] - used[0]) / steps / (start.size * start.dtype.itemsize)
    details = {"bytes": dict(zip((steps, 2 * steps), used, strict=True))}
    return Row(what, grown, unit="states", details=details)


def _ours() -> Any:
    tolerances = {"rtol": _TOLERANCE, "atol": _TOLERANCE}
    return integrators.Kvaerno3(linear_solver=implicit.Tridiagonal(), **tolerances)


def _diffrax() -> Any:
    # Its own chord method calls rounding a divergence at these tolerances.
    newton = optx.Newton(_TOLERANCE, _TOLERANCE)
    return diffrax.Kvaerno3(root_finder=newton)


def _start(points: int) -> Any:
    x = jnp.arange(1, points + 1) / (points + 1)
    return jnp.sin(jnp.pi * x) + 0.3 * jnp.sin(3 * jnp.pi * x)


def _loss(solver: Any, steps: int) -> Callable[..., Any]:
    def loss(start):
        method = simulations.Method(solver, _STEP)
        run = simulations.simulate(Diffusion(start), steps * _STEP, method)
        return jnp.sum(run.states**2)

    return loss


def _gradient(solver: Any, steps: int) -> Callable[..., Any]:
    return jax.grad(_loss(solver, steps))
