"""Osculating conics: the Kepler orbits that touch the motion at one time."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..nbody import NBody, State, elements


_POINTS = 241


def osculating_conics(system: Any, states: Any) -> dict[int, np.ndarray]:
    """Points (point, 3) of the orbit of each body about its primary at the last time.

    An ellipse begins and ends at the body; a hyperbola passes through it. The body
    without a primary, which is the heaviest, has none.
    """
    masses, G = _checked_masses(system, states)
    x, v = (np.asarray(a, float)[-1] for a in (states.positions, states.velocities))
    primary = _primaries(G * masses, x, v)
    bodies = np.flatnonzero(primary >= 0)
    if bodies.size == 0:
        return {}
    center = primary[bodies]
    gm = G * (masses[bodies] + masses[center])
    orbit = elements(x[bodies] - x[center], v[bodies] - v[center], gm)
    e, a = np.asarray(orbit.eccentricity), np.asarray(orbit.semi_major_axis)
    if not np.all(np.isfinite(a)) or np.any(np.abs(e - 1) < 1e-12):
        raise ValueError(
            "osculating needs ellipses or hyperbolas at the last time, got a fall "
            "through the center or a parabola; end the trajectory at another time"
        )
    f0 = np.asarray(orbit.true_anomaly)
    f = np.stack([_anomalies(*one) for one in zip(e, f0, strict=True)], axis=1)
    along = eqx.tree_at(lambda orbit: orbit.true_anomaly, orbit, jnp.asarray(f))
    points = np.asarray(along.state(gm)[0]) + x[center]
    return {int(body): points[:, i] for i, body in enumerate(bodies)}


def _checked_masses(system: Any, states: Any) -> tuple[np.ndarray, float]:
    """Masses of all rows of the states, those of test particles zero; and G."""
    if not isinstance(system, NBody) or system.gravity is None:
        raise ValueError(
            "osculating must be the nbody.NBody that was simulated, with Gravity, got "
            f"{type(system).__name__}"
        )
    if not isinstance(states, State):
        raise ValueError(
            "osculating needs velocities: give orbits a Trajectory or its states, got "
            f"positions as {type(states).__name__}"
        )
    rows = np.shape(states.positions)[1]
    masses = np.asarray(system.bodies.masses, float)
    light = system.test_particles
    light = 0 if light is None else len(light.positions)
    if rows not in (masses.size, masses.size + light):
        raise ValueError(
            f"osculating must be the NBody of these states, got one of {masses.size} "
            f"bodies for states of {rows}"
        )
    return np.pad(masses, (0, rows - masses.size)), float(system.gravity.G)


def _primaries(gm: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Number of the primary of each body, -1 for the heaviest of all."""
    heaviest = int(np.argmax(gm))
    found = np.full(gm.size, -1)
    for i in range(gm.size):
        # Of equal masses the first is the heavier.
        heavier = (gm > gm[i]) | ((gm == gm[i]) & (np.arange(gm.size) < i) & (gm > 0))
        others = np.flatnonzero(heavier)
        if others.size == 0:
            continue
        r = np.linalg.norm(x[others] - x[i], axis=1)
        speed = np.linalg.norm(v[others] - v[i], axis=1)
        # 1/a, positive where the pair is bound.
        closeness = 2 / r - speed**2 / (gm[others] + gm[i])
        tightest = int(np.argmax(closeness))
        found[i] = others[tightest] if closeness[tightest] > 0 else heaviest
    return found


def _anomalies(e: float, f: float) -> np.ndarray:
    """True anomalies along a conic, even in the eccentric anomaly, through f."""
    if e < 1:
        ratio = np.sqrt((1 - e) / (1 + e))
        start = 2 * np.arctan2(ratio * np.sin(f / 2), np.cos(f / 2))
        half = (start + np.linspace(0, 2 * np.pi, _POINTS)) / 2
        return 2 * np.arctan2(np.sin(half), ratio * np.cos(half))
    ratio = np.sqrt((e - 1) / (e + 1))
    here = 2 * np.arctanh(ratio * np.tan(f / 2))
    # A little beyond the body, and four times as far as the pericenter.
    farthest = max(1.1 * (e * np.cosh(here) - 1), 4 * (e - 1))
    end = np.arccosh((1 + farthest) / e)
    h = np.sort(np.append(np.linspace(-end, end, _POINTS - 1), here))
    return 2 * np.arctan(np.tanh(h / 2) / ratio)
