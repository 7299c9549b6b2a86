"""Coefficients of Gauss–Radau collocation with eight nodes, by exact arithmetic."""

from fractions import Fraction
from math import comb
from typing import NamedTuple

import numpy as np


#: Nodes in units of the step: its start and the zeros of a Jacobi polynomial.
_NODES = (
    "0",
    "0.0562625605369221464656521910318",
    "0.180240691736892364987579942780",
    "0.352624717113169637373907769648",
    "0.547153626330555383001448554766",
    "0.734210177215410531523210605558",
    "0.885320946839095768090359771030",
    "0.977520613561287501891174488626",
)


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
    return RadauTables(
        _floats([nodes[1:]])[0],
        _floats([[_twice_integrated(p, c) for p in basis] for c in ends]),
        _floats([[_integrated(p, c) for p in basis] for c in ends]),
        _floats([[p[k] for p in basis] for k in degrees]),
        _floats([[c**k for k in degrees] for c in nodes[1:]]),
        np.array([[float(comb(k, j)) for k in degrees] for j in degrees]),
    )


def _lagrange(nodes: list[Fraction], j: int) -> list[Fraction]:
    """Coefficients of the polynomial that is 1 at node j and 0 at the others."""
    found = [Fraction(1)]
    for m, node in enumerate(nodes):
        if m == j:
            continue
        gap = nodes[j] - node
        raised = [Fraction(0), *(a / gap for a in found)]
        lowered = [*(a * node / gap for a in found), Fraction(0)]
        found = [a - b for a, b in zip(raised, lowered, strict=True)]
    return found


def _integrated(p: list[Fraction], s: Fraction) -> Fraction:
    return sum((a * s ** (k + 1) / (k + 1) for k, a in enumerate(p)), Fraction(0))


def _twice_integrated(p: list[Fraction], s: Fraction) -> Fraction:
    parts = (a * s ** (k + 2) / ((k + 1) * (k + 2)) for k, a in enumerate(p))
    return sum(parts, Fraction(0))


def _floats(rows: list[list[Fraction]]) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in rows])


RADAU = _tables()
