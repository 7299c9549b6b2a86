"""Coefficients of Gauss–Radau collocation with eight nodes, by exact arithmetic."""

from fractions import Fraction
from itertools import product
from math import comb, factorial, nextafter
from typing import NamedTuple

import numpy as np


#: Nodes in units of the step: its start and the zeros of a Jacobi polynomial. What
#: follows is exact for these doubles.
_NODES = (
    0.0,
    0.0562625605369221464656521910318,
    0.180240691736892364987579942780,
    0.352624717113169637373907769648,
    0.547153626330555383001448554766,
    0.734210177215410531523210605558,
    0.885320946839095768090359771030,
    0.977520613561287501891174488626,
)

#: A step in units of 1 / (angular frequency), where rounding is to cancel.
_TURN = 0.2


class RadauTables(NamedTuple):
    r"""Coefficients of a step of length 1, of accelerations at the nodes.

    Accelerations are that at the start, $a_0$, and $\Delta_i = a_i - a_0$ at the other
    seven: written so, rounding of the coefficients counts for less.

    - `nodes`: the seven.
    - `positions`, `velocities`: rows of the nodes and of the end, columns of the Δ; a₀
        adds c²/2 and c.
    - `powers`: the b of $a(s) = a_0 + \sum_k b_k s^k$, k = 1 ... 7, from the Δ.
    - `values`: the Δ from the b.
    - `shift`: the b of the next step of the same length, by extrapolation.
    """

    nodes: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    powers: np.ndarray
    values: np.ndarray
    shift: np.ndarray


def _tables() -> RadauTables:
    nodes = [Fraction(node) for node in _NODES]
    basis = [_lagrange(nodes, j) for j in range(1, len(nodes))]
    ends, degrees = [*nodes[1:], Fraction(1)], range(1, len(nodes))
    places = [[_twice_integrated(p, c) for p in basis] for c in ends]
    speeds = [[_integrated(p, c) for p in basis] for c in ends]
    return RadauTables(
        np.array(_NODES[1:]),
        np.vstack([_floats(places[:-1]), _rounded_together(places[-1])]),
        np.vstack([_floats(speeds[:-1]), _rounded_together(speeds[-1])]),
        _floats([[p[k] for p in basis] for k in degrees]),
        _floats([[c**k for k in degrees] for c in nodes[1:]]),
        np.array([[float(comb(k, j)) for k in degrees] for j in degrees]),
    )


def _lagrange(nodes: list[Fraction], j: int) -> list[Fraction]:
    """Coefficients of the polynomial that is 1 at node j and 0 at the others."""
    polynomial = [Fraction(1)]
    for m, node in enumerate(nodes):
        if m == j:
            continue
        gap = nodes[j] - node
        raised = [Fraction(0), *(a / gap for a in polynomial)]
        lowered = [*(a * node / gap for a in polynomial), Fraction(0)]
        polynomial = [a - b for a, b in zip(raised, lowered, strict=True)]
    return polynomial


def _integrated(p: list[Fraction], s: Fraction) -> Fraction:
    return sum((a * s ** (k + 1) / (k + 1) for k, a in enumerate(p)), Fraction(0))


def _twice_integrated(p: list[Fraction], s: Fraction) -> Fraction:
    parts = (a * s ** (k + 2) / ((k + 1) * (k + 2)) for k, a in enumerate(p))
    return sum(parts, Fraction(0))


def _rounded_together(weights: list[Fraction]) -> np.ndarray:
    """Doubles next to the weights of the end of a step, whose errors cancel.

    Rounded each for itself, the seven change every step the same way: the energy of a
    circular orbit drifts by 4e-18 a turn, which is what rounding adds up to at random
    in 10⁴ turns. Of their neighbours those are taken which integrate the first powers
    of time best, as large as those are in a circular orbit.
    """
    near = [float(w) for w in weights]
    choices = [(nextafter(w, 0), w, nextafter(w, 2)) for w in near]
    pairs = zip(choices, weights, strict=True)
    errors = [[float(Fraction(c) - w) for c in three] for three, w in pairs]
    tries = np.array(list(product(*errors)))
    k = np.arange(1, 8)
    sizes = _TURN**k / np.array([factorial(i) for i in k])
    missed = np.dot(tries, np.array(_NODES[1:])[:, None] ** k * sizes)
    best = np.argmin(np.sum(missed**2, axis=1))
    return np.array(list(product(*choices))[best])


def _floats(rows: list[list[Fraction]]) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in rows])


RADAU = _tables()
