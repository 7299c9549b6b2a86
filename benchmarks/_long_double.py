"""Derivatives of a leapfrog run by a complex step in long double: NumPy, no JAX.

A run that starts at θ + iεe_k ends with ε ∂/∂θ_k in its imaginary part, up to ε², and
nothing is subtracted: with ε = 1e-30 only the rounding of extended precision is left.
That judges automatic differentiation in double precision and finite differences alike.
"""

from collections.abc import Callable

import numpy as np


_STEP = np.longdouble("1e-30")


def is_available() -> bool:
    """Whether long double is longer than double here (x86: yes; Apple: no)."""
    return bool(np.finfo(np.longdouble).eps < 1e-18)


def leapfrog(masses, x, v, *, step: float, steps: int, every: int) -> np.ndarray:
    """Drift, kick, drift of many systems: (time, 6, body, system).

    `masses` (body, system); `x`, `v` (3, body, system). No absolute values: analytic.
    """
    eye = np.eye(len(masses), dtype=np.longdouble)[:, :, None]
    h, outputs = np.longdouble(step), []
    for n in range(steps):
        x = x + h / 2 * v
        d = x[:, None] - x[:, :, None]
        r2 = (d * d).sum(0) + eye
        v = v + (h * masses / (r2 * np.sqrt(r2)) * d).sum(2)
        x = x + h / 2 * v
        if (n + 1) % every == 0:
            outputs.append(np.concatenate([x, v]))
    return np.array(outputs)


def derivatives(
    run: Callable[[np.ndarray], np.ndarray], values: np.ndarray
) -> np.ndarray:
    """Derivatives of `run`, which takes (parameter, system) to (..., system).

    One system a parameter; they run at once. The parameter is the last axis.
    """
    table = np.asarray(values, np.clongdouble)[:, None]
    found = run(table + 1j * _STEP * np.eye(len(values)))
    return np.imag(found) / _STEP
