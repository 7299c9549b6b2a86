"""Kepler's equation for a million pairs (M, e): pairs a second, and its gradient."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffsim import nbody

from .._harness import Case, Effort, Row, compiled, contest, ratio, speedup
from .._peers import peer


def measure(effort: Effort) -> list[Row]:
    """Ours, five plain steps of Halley in JAX, Numba's loop, and our gradient."""
    count = effort.size(1_000_000, 1000)
    m, e = _pairs(count)
    forward = compiled(nbody.eccentric_anomaly, m, e)
    total = compiled(_total, m, e)
    gradient = compiled(jax.value_and_grad(_total, (0, 1)), m, e)
    halley = compiled(_halley, m, e)
    loops = _numba(m, e)
    turns = {
        "ours": forward.turn,
        "sum": total.turn,
        "gradient": gradient.turn,
        "Halley, five steps in JAX": halley.turn,
    }
    times = contest(
        effort, **turns, **{name: turn for name, (turn, _) in loops.items()}
    )
    values = {"Halley, five steps in JAX": halley.value}
    values |= {name: value for name, (_, value) in loops.items()}
    rows = [
        speedup(
            f"Kepler's equation, {count} pairs, float64, pairs a second",
            times["ours"],
            times[name],
            program=forward,
            peer=name,
            error=_error(forward.value, m, e),
            reference="the equation in long double",
            details={
                "pairs_per_second": count / times["ours"].best,
                "peer_error": _error(value, m, e),
            },
            target=1.0,
        )
        for name, value in values.items()
    ]
    return [
        *rows,
        ratio(
            f"gradient of Kepler's equation in M and e, {count} pairs",
            times["gradient"],
            times["sum"],
            program=gradient,
            peer="its own sum",
            target=2.0,
            details={
                "of_all_values": times["gradient"].best / times["ours"].best,
            },
            error=_gradient_error(gradient.value[1], forward.value, e),
            reference="closed form in long double",
        ),
    ]


CASE = Case("kepler_equation", __doc__ or "", measure)


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.uniform(0, 2 * np.pi, count), random.uniform(0, 0.999, count)


def _total(m, e):
    return jnp.sum(nbody.eccentric_anomaly(m, e))


def _halley(m, e):
    """As one would write it: from M + e sin M, five steps for any pair."""
    anomaly = m + e * jnp.sin(m)
    for _ in range(5):
        sine, cosine = jnp.sin(anomaly), jnp.cos(anomaly)
        f, slope = anomaly - e * sine - m, 1 - e * cosine
        anomaly = anomaly - f / (slope - f * e * sine / (2 * slope))
    return anomaly


def _numba(m, e) -> dict[str, tuple[Callable[[], Callable[[], Any]], Any]]:
    """Newton's steps until they stop, pair by pair; nothing without Numba."""
    try:
        numba = peer("numba")
    except ModuleNotFoundError as missing:
        print(f"  {missing}")
        return {}
    loop = numba.njit(fastmath=True, error_model="numpy")(_newton)
    # The first call compiles.
    return {"Newton's steps in Numba": (lambda: lambda: loop(m, e), loop(m, e))}


def _newton(m, e):
    out = np.empty_like(m)
    for i in range(m.size):
        anomaly = m[i] + 0.85 * e[i] * (1.0 if m[i] < math.pi else -1.0)
        for _ in range(50):
            f = anomaly - e[i] * math.sin(anomaly) - m[i]
            step = f / (1 - e[i] * math.cos(anomaly))
            anomaly -= step
            if abs(step) < 1e-15 * abs(anomaly):
                break
        out[i] = anomaly
    return out


def _error(found, m, e) -> float:
    """Residual of the equation over max(|E|, 1)."""
    found, m, e = (np.asarray(a, np.longdouble) for a in (found, m, e))
    left = found - e * np.sin(found) - m
    return float(np.max(np.abs(left) / np.maximum(np.abs(found), 1)))


def _gradient_error(found, anomaly, e) -> float:
    anomaly, e = (np.asarray(a, np.longdouble) for a in (anomaly, e))
    slope = 1 - e * np.cos(anomaly)
    exact = 1 / slope, np.sin(anomaly) / slope
    left = [np.asarray(a) - b for a, b in zip(found, exact, strict=True)]
    return max(
        float(np.max(np.abs(a)) / np.max(b)) for a, b in zip(left, exact, strict=True)
    )
