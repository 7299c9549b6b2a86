"""Direct summation over 4096 bodies: pairs a second against REBOUND's double loop."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._harness import Case, Effort, Row, compiled, contest, deviation, speedup
from .._peers import peer, states_of
from ._cluster import SOFTENING, cluster, rebound, run


def measure(effort: Effort) -> list[Row]:
    """Leapfrog steps, one force evaluation each; Numba's loop is the force alone."""
    bodies, steps = effort.size(4096, 128), effort.size(4, 2)
    # From rest: speeds are then accelerations, and their errors those of the forces.
    masses, x, v = cluster(bodies)
    start = (masses, x, 0 * v)
    programs = {
        dtype: compiled(functools.partial(run, steps=steps), *_arrays(start, dtype))
        for dtype in ("float64", "float32")
    }
    peers = {"REBOUND, float64": _rebound(start, steps)} | _numba(start, steps)
    turns = {dtype: program.turn for dtype, program in programs.items()}
    times = contest(effort, **turns, **peers)
    exact = rebound(start)
    exact.steps(steps)

    def row(dtype: str, name: str, **rest: Any) -> Row:
        rates = {who: bodies**2 * steps / times[who].best for who in (dtype, name)}
        return speedup(
            f"direct sum, {dtype}, {bodies} bodies, pairs a second",
            times[dtype],
            times[name],
            program=programs[dtype],
            peer=name,
            error=deviation(programs[dtype].value, states_of(exact)),
            reference="REBOUND",
            details={"pairs_per_second": rates},
            **rest,
        )

    first, *others = peers
    rows = [row("float64", first, target=2.0), row("float32", first)]
    return rows + [row("float64", name) for name in others]


CASE = Case("direct_sum_4096", __doc__ or "", measure)


def _arrays(start: Any, dtype: str) -> list[Any]:
    return [jnp.asarray(a, dtype) for a in start]


def _rebound(start: Any, steps: int) -> Callable[[], Callable[[], Any]]:
    def prepare():
        simulation = rebound(start)
        return lambda: simulation.steps(steps)

    return prepare


def _numba(start: Any, steps: int) -> dict[str, Callable[[], Callable[[], Any]]]:
    """The double loop as one would write it for Numba; nothing without Numba."""
    try:
        numba = peer("numba")
    except ModuleNotFoundError as missing:
        print(f"  {missing}")
        return {}
    loop = numba.njit(fastmath=True, error_model="numpy")(_accelerations)
    masses, positions, _ = start
    x = np.ascontiguousarray(positions.T)

    def force():
        return loop(masses, x, SOFTENING**2)

    force()  # compiles
    name = "Numba's `fastmath` loop, float64"
    return {name: lambda: lambda: [force() for _ in range(steps)]}


def _accelerations(masses, x, eps2):
    out = np.zeros_like(x)
    for i in range(x.shape[1]):
        ax = ay = az = 0.0
        for j in range(x.shape[1]):
            dx, dy, dz = x[0, j] - x[0, i], x[1, j] - x[1, i], x[2, j] - x[2, i]
            r2 = dx * dx + dy * dy + dz * dz + eps2
            w = masses[j] / (r2 * np.sqrt(r2))
            ax, ay, az = ax + w * dx, ay + w * dy, az + w * dz
        out[0, i], out[1, i], out[2, i] = ax, ay, az
    return out
