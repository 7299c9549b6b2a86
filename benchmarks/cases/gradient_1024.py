"""Gradient of 50 steps of 1024 bodies: its time, its memory, its largest array."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params

from diffsim import simulations

from .._harness import Case, Effort, Program, Row, compiled, contest, memory_of, ratio
from .._peers import states_of
from ._cluster import cluster, rebound, run


#: Displacement of the check by REBOUND's runs. Where its two errors meet: 1e-4 leaves
#: 3e-8 of the fourth order, 1e-6 2e-10 of rounding, this 1e-11.
_WIDTH = 1e-5


def measure(effort: Effort) -> list[Row]:
    """The stored run and `Reversible`, each with its memory and its largest array."""
    bodies, steps = effort.size(1024, 96), effort.size(50, 4)
    start = cluster(bodies)
    forward = compiled(_loss(steps), *start)
    adjoints = {"stored": None, "reversible": simulations.Reversible()}
    programs = {
        name: compiled(_gradient(steps, adjoint), *start)
        for name, adjoint in adjoints.items()
    }
    turns = {name: program.turn for name, program in programs.items()}
    times = contest(effort, forward=forward.turn, **turns)
    exact = _slope_by_rebound(start, steps)
    rows = []
    for name, target, says in (
        ("stored", 3.5, ""),
        ("reversible", 5.5, ", `Reversible`"),
    ):
        what = f"gradient of {steps} steps of {bodies} bodies{says}"
        row = ratio(
            what,
            times[name],
            times["forward"],
            program=programs[name],
            peer="its own run",
            target=target,
            error=abs(_slope(programs[name], start) / exact - 1),
            reference="differences of REBOUND's runs",
        )
        rows += [row, *_structure(what, steps, adjoints[name], start)]
    return rows


CASE = Case("gradient_1024", __doc__ or "", measure)


def _loss(steps: int, adjoint=None) -> Callable[..., Any]:
    def loss(masses, x, v):
        final = run(masses, x, v, steps=steps, adjoint=adjoint)
        return sum(jax.numpy.sum(a**2) for a in final)

    return loss


def _gradient(steps: int, adjoint) -> Callable[..., Any]:
    return jax.grad(_loss(steps, adjoint), (0, 1, 2))


def _structure(what: str, steps: int, adjoint, start: Any) -> list[Row]:
    """Memory that a further step takes, and the largest array of the jaxpr."""
    bodies = len(start[0])
    memory = [
        memory_of(jax.jit(_gradient(n, adjoint)).lower(*start).compile())
        for n in (steps, 2 * steps)
    ]
    grown = (memory[1] - memory[0]) / steps / (6 * bodies * start[0].itemsize)
    jaxpr = jax.make_jaxpr(_gradient(steps, adjoint))(*start)
    largest = max(_sizes(jaxpr.jaxpr))
    return [
        Row(
            f"{what}: memory a further step takes",
            grown,
            unit="states",
            # One state of positions and velocities, and rounding up by the allocator.
            target=1.05 if adjoint is None else 0.05,
            details={"bytes": dict(zip((steps, 2 * steps), memory, strict=True))},
        ),
        Row(
            f"{what}: its largest array",
            largest / bodies**2,
            unit="N²",
            target=0.5,
            details={"numbers": largest},
        ),
    ]


def _sizes(jaxpr: Any) -> Iterator[int]:
    """Sizes of all arrays that a jaxpr computes, inside loops and calls as well."""
    for eqn in jaxpr.eqns:
        yield from (math.prod(getattr(v.aval, "shape", ())) for v in eqn.outvars)
        for inside in jaxprs_in_params(eqn.params):
            yield from _sizes(inside)


def _direction(start: Any) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.normal(size=a.shape) * np.abs(a).max() for a in start]


def _slope(program: Program, start: Any) -> float:
    """The gradient along a seeded direction."""
    pairs = zip(program.value, _direction(start), strict=True)
    return sum(float(np.vdot(a, b)) for a, b in pairs)


def _slope_by_rebound(start: Any, steps: int) -> float:
    """The same by central differences of fourth order."""

    def loss(h: float) -> float:
        pairs = zip(start, _direction(start), strict=True)
        simulation = rebound([a + h * b for a, b in pairs])
        simulation.steps(steps)
        return sum(float(np.sum(a**2)) for a in states_of(simulation))

    near, far = loss(_WIDTH) - loss(-_WIDTH), loss(2 * _WIDTH) - loss(-2 * _WIDTH)
    return (8 * near - far) / (12 * _WIDTH)
