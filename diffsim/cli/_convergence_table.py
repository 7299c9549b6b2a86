"""`verify --orders`: every equation, boundary and scheme, by manufactured solutions."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import pde
from ..problems import MANUFACTURED_PROBLEMS, ManufacturedProblem, manufactured_error
from ._table_printing import Measured, tabulated


SCHEMES: dict[str, pde.AbstractReconstruction] = {
    "Upwind": pde.Upwind(),
    "Central(2)": pde.Central(2),
    "Central(4)": pde.Central(4),
    "MUSCL": pde.MUSCL(),
    "WENO5": pde.WENO5(),
}
#: Beside an inflow a layer of D/|v| is three cells, and orders come late.
_SHORT_OF_ORDER, _BESIDE_INFLOW = 0.1, 0.4
#: Cells of either run, by the order: high ones are seen on many cells only.
_CELLS, _OF_HIGH_ORDER = (64, 128), (96, 192)


class Row(NamedTuple):
    """Orders of errors, root mean square and largest, and of their derivatives."""

    equation: str
    boundary: str
    scheme: str
    expected: int
    rms: float
    most: float
    slope: float

    @property
    def passed(self) -> bool:
        """Whether the order is reached; written so that NaN is not."""
        short = _BESIDE_INFLOW if self.boundary == "Inflow" else _SHORT_OF_ORDER
        return self.rms > self.expected - short


def orders(*, markdown: bool = False) -> int:
    """Print the order of every equation × boundary × scheme on a line.

    **Returns:** 0, or 1 if one is not what it must be.
    """
    cases = [(", ".join((e.name, *rest)), (e, *rest)) for e, *rest in all_cases()]
    header = ("equation", "boundary", "scheme", "order (of)", "largest", "∂/∂p")
    return tabulated(header, cases, _row, left=3, markdown=markdown)


def all_cases() -> Iterator[tuple[ManufacturedProblem, str, str]]:
    """All that go together."""
    for equation in MANUFACTURED_PROBLEMS:
        for kind in equation.boundaries:
            for name in SCHEMES if equation.schemes else ("Central(2)",):
                if _fits(equation, kind, name):
                    yield equation, kind, name


def measured_order(equation: ManufacturedProblem, kind: str, name: str) -> Row:
    """By runs on two grids."""
    scheme = SCHEMES[name]

    @functools.partial(jax.jit, static_argnums=1)
    def errors(p, n):
        error = functools.partial(manufactured_error, equation, kind, scheme)
        return jax.jvp(lambda p: error(p, n), (p,), (jnp.ones_like(p),))

    cells = _CELLS if scheme.order <= 2 else _OF_HIGH_ORDER
    by_grid = [errors(jnp.ones(()), n) for n in cells]
    norms = np.array([[_rms(e), np.max(np.abs(e)), _rms(d)] for e, d in by_grid])
    rms, most, slope = map(float, np.log2(norms[0] / norms[1]))
    # Ghosts of `Inflow` hold the value at the wall, those of `Outflow` that of a cell.
    if kind == "Inflow" or (kind == "Outflow" and equation.schemes):
        expected = 1
    else:
        # Four of WENO5, at moving extrema and where it spreads.
        expected = min(scheme.order, 4) if equation.schemes else 2
    return Row(equation.name, kind, name, expected, rms, most, slope)


def _rms(a) -> float:
    return float(np.sqrt(np.mean(np.asarray(a) ** 2)))


def _fits(equation: ManufacturedProblem, kind: str, name: str) -> bool:
    """Whether an order can be asked for.

    `Outflow` knows the first of the cells outside only, and where nothing is damped a
    central scheme keeps whatever an open end sends back.
    """
    if kind == "Outflow":
        return name in ("Upwind", "Central(2)", "MUSCL")
    damped = equation.name not in ("Euler", "ShallowWater")
    closed = kind in ("Periodic", "ReflectingWall")
    return damped or closed or not name.startswith("Central")


def _row(case: tuple[ManufacturedProblem, str, str]) -> Measured:
    row = measured_order(*case)
    order = f"{row.rms:.2f} ({row.expected})"
    numbers = (order, f"{row.most:.2f}", f"{row.slope:.2f}")
    failures = () if row.passed else (f"order {order}",)
    return Measured((row.equation, row.boundary, row.scheme, *numbers), failures)
