"""Runge–Kutta steps of small states: runs and derivatives beside Diffrax by hand."""

import functools
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds

from .._harness import (
    Case,
    Effort,
    Program,
    Row,
    Times,
    compiled,
    contest,
    deviation,
    ratio,
)
from ..fresh import by_hand, ours, problems
from . import _five_bodies as five


_BY_HAND = "Diffrax by hand"
_TOLERANCE, _MOST = 1e-8, 2**16
_STEP, _STEPS = 4.0, 1000


def measure(effort: Effort) -> list[Row]:
    """All in one contest. Gradients are in all masses, the Jacobian in these 5."""
    steps = effort.size(_STEPS, 20)
    at = _times(steps)
    programs = _runs("fixed", at, _STEP) | _runs("adaptive", at, None)
    programs |= _jacobians(at) | _animals()
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    bodies, taken = f"{steps} steps of Dopri8, 5 bodies", _taken(steps)
    chosen = f"{taken} adaptive steps of Dopri8, 5 bodies"
    found = _Found(programs, times)
    return [
        found.per_step(f"a step, {bodies}", "fixed", steps, 3.0),
        found.to_run(f"gradient, {bodies}", "fixed_gradient", "fixed", 4.0),
        found.to_run(f"Jacobian in 5 masses, {bodies}", "fixed_jacobian", "fixed", 3.0),
        found.per_step(f"a step, {chosen}", "adaptive", taken, 4.0),
        found.to_run(f"gradient, {chosen}", "adaptive_gradient", "adaptive", 5.0),
        found.gradient_of_animals(),
    ]


CASE = Case("small_loops", __doc__ or "", measure)


class _Found(NamedTuple):
    """Functions compiled and timed; Diffrax's has `_by_hand` behind its name."""

    programs: dict[str, Program]
    times: dict[str, Times]

    def per_step(self, what: str, name: str, steps: int, target: float) -> Row:
        """Microseconds of a step."""
        mine, other = self.times[name], self.times[f"{name}_by_hand"]
        micro = 1e6 / steps
        return Row(
            what,
            micro * mine.best,
            unit="µs",
            target=target,
            **self._both(name, mine, other),
            details={"by_hand_us": micro * other.best, "rounds": mine.rounds},
        )

    def to_run(self, what: str, name: str, run: str, target: float) -> Row:
        """How many times as long as its own run it takes."""
        other = self.times[f"{name}_by_hand"]
        return ratio(
            what,
            self.times[name],
            self.times[run],
            program=self.programs[name],
            peer="its own run",
            target=target,
            error=self._error(name),
            reference=_BY_HAND,
            details={"by_hand": other.best / self.times[f"{run}_by_hand"].best},
        )

    def gradient_of_animals(self) -> Row:
        """Milliseconds, of twenty-one years of both."""
        mine, other = self.times["animals"], self.times["animals_by_hand"]
        return Row(
            "gradient of the misfit of lynx and hare in 6 numbers",
            1e3 * mine.best,
            unit="ms",
            target=1.0,
            **self._both("animals", mine, other),
            details={"by_hand_ms": 1e3 * other.best, "rounds": mine.rounds},
        )

    def _error(self, name: str) -> float:
        mine, other = self.programs[name], self.programs[f"{name}_by_hand"]
        return deviation(mine.value, other.value)

    def _both(self, name: str, mine: Times, other: Times) -> dict[str, Any]:
        return {
            "peer": _BY_HAND,
            "seconds": mine.best,
            "peer_seconds": other.best,
            "noise": max(mine.noise, other.noise),
            "away": max(mine.away, other.away),
            "compile_seconds": self.programs[name].compile_seconds,
            "error": self._error(name),
            "reference": _BY_HAND,
        }


def _vector(masses: Any) -> Any:
    return jnp.concatenate([masses, jnp.asarray(five.start()[5:])])


def _times(steps: int) -> np.ndarray:
    return np.linspace(0, steps * _STEP, 11)[1:]


def _run(masses: Any, times: np.ndarray, step: float | None) -> Any:
    """Positions by diffsim, in steps that are fixed or chosen."""
    method = ds.Method(diffrax.Dopri8(), step=step)
    if step is None:
        method = ds.Method(diffrax.Dopri8(), controller=_controller())
    return ds.simulate(five.system(_vector(masses)), times, method).states.positions


def _controller() -> diffrax.PIDController:
    return diffrax.PIDController(rtol=_TOLERANCE, atol=_TOLERANCE)


def _by_hand(
    masses: Any, times: np.ndarray, step: float | None, adjoint: Any = None
) -> Any:
    """The same by Diffrax alone, positions and velocities as a pair."""
    _, x, v = five.arrays(_vector(masses))
    constant = diffrax.ConstantStepSize()
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(_pull),
        diffrax.Dopri8(),
        0.0,
        times[-1],
        step,
        (x, v),
        masses,
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
        stepsize_controller=_controller() if step is None else constant,
        adjoint=diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        max_steps=_MOST,
    )
    assert solution.ys is not None
    return solution.ys[0]


def _pull(t: Any, y: Any, masses: Any) -> Any:
    x, v = y
    apart = x[None] - x[:, None]
    squares = jnp.sum(apart**2, axis=-1) + jnp.eye(len(masses))
    pulls = masses[:, None] * apart / squares[..., None] ** 1.5
    return v, jnp.sum(pulls, axis=1)


def _runs(name: str, times: np.ndarray, step: float | None) -> dict[str, Program]:
    """The run and its gradient in the masses, by diffsim and by hand."""
    masses, found = jnp.asarray(five.MASSES), {}
    for by, run in (("", _run), ("_by_hand", _by_hand)):
        positions = functools.partial(run, times=times, step=step)
        squares = functools.partial(_sum_of_squares, positions)
        found[f"{name}{by}"] = compiled(positions, masses)
        found[f"{name}_gradient{by}"] = compiled(jax.grad(squares), masses)
    return found


def _sum_of_squares(positions: Any, masses: Any) -> Any:
    return jnp.sum(positions(masses) ** 2)


def _jacobians(times: np.ndarray) -> dict[str, Program]:
    """Of the run at fixed steps, by hand in the mode that is made for it."""
    masses, forward = jnp.asarray(five.MASSES), diffrax.ForwardMode()
    functions = {
        "fixed_jacobian": lambda m: _run(m, times, _STEP),
        "fixed_jacobian_by_hand": lambda m: _by_hand(m, times, _STEP, forward),
    }
    return {name: compiled(jax.jacfwd(f), masses) for name, f in functions.items()}


def _taken(steps: int) -> int:
    """How many steps the controller takes."""
    method = ds.Method(diffrax.Dopri8(), controller=_controller())
    system = five.system(_vector(jnp.asarray(five.MASSES)))
    return int(ds.simulate(system, _times(steps), method).stats["num_steps"])


def _animals() -> dict[str, Program]:
    """The gradient that a fit by descent, or a sampler, asks for again and again."""
    start = jnp.concatenate([problems.RATES, problems.POPULATIONS])

    def misfit(found):
        return jnp.sum(((found - np.log(problems.PELTS)) / problems.SIGMA) ** 2)

    def by_diffsim(p):
        return misfit(ours.populations(ours.LotkaVolterra(p[:4], p[4:])))

    def by_diffrax(p):
        return misfit(jnp.log(by_hand.populations(p[:4], p[4:])))

    functions = {"animals": by_diffsim, "animals_by_hand": by_diffrax}
    return {name: compiled(jax.grad(f), start) for name, f in functions.items()}
