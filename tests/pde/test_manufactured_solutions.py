"""Manufactured solutions: every equation, boundary and scheme has its order."""

import pytest

from diffsim import pde
from diffsim.cli import _convergence_table
from diffsim.problems import MANUFACTURED_PROBLEMS


#: Equation, boundary, scheme; `diffsim verify --orders` has the product.
COVERED = [
    ("Diffusion", "Robin", "Central(2)"),
    ("Diffusion", "Dirichlet", "Central(2)"),
    ("FisherKPP", "Neumann", "Central(2)"),
    ("AllenCahn", "Periodic", "Central(2)"),
    ("GrayScott", "Robin", "Central(2)"),
    ("Wave", "Dirichlet", "Central(2)"),
    ("Wave", "Robin", "Central(2)"),
    ("AdvectionDiffusion", "Dirichlet", "MUSCL"),
    ("AdvectionDiffusion", "Neumann", "Central(4)"),
    ("AdvectionDiffusion", "Robin", "WENO5"),
    ("AdvectionDiffusion", "Inflow", "Upwind"),
    ("AdvectionDiffusion", "Outflow", "Central(2)"),
    ("Burgers", "Neumann", "WENO5"),
    ("Burgers", "Robin", "Central(4)"),
    ("Burgers", "Dirichlet", "Upwind"),
    ("Euler", "ReflectingWall", "WENO5"),
    ("Euler", "Dirichlet", "MUSCL"),
    ("ShallowWater", "Dirichlet", "WENO5"),
    ("ShallowWater", "ReflectingWall", "Central(2)"),
]
BY_NAME = {equation.name: equation for equation in MANUFACTURED_PROBLEMS}
#: In a mirror no extremum moves, and WENO5 is of order 5.
HIGHER = {("Euler", "ReflectingWall", "WENO5"): 5}


@pytest.mark.slow
@pytest.mark.parametrize("case", COVERED, ids=" ".join)
def test_errors_and_their_derivatives_fall_with_the_order(case):
    name, *rest = case
    row = _convergence_table.measured_order(BY_NAME[name], *rest)
    order = HIGHER.get(case, row.expected) - 0.1
    assert row.rms > order, row
    assert row.slope > order, row
    # The last to fall in place is the error beside a wall.
    assert row.most > order - 0.15, row


def test_every_equation_boundary_and_scheme_is_covered():
    products = list(_convergence_table.all_cases())
    assert set(COVERED) <= {(e.name, kind, scheme) for e, kind, scheme in products}
    names, kinds, schemes = map(set, zip(*COVERED, strict=True))
    assert names == {equation.name for equation in MANUFACTURED_PROBLEMS}
    assert kinds == {
        kind for equation in MANUFACTURED_PROBLEMS for kind in equation.boundaries
    }
    assert schemes == set(_convergence_table.SCHEMES)
    public = {getattr(pde, name) for name in pde.__all__}
    finite = {
        c.__name__
        for c in public
        if isinstance(c, type)
        and issubclass(
            c, pde.AbstractFiniteVolumeEquation | pde.AbstractSecondOrderInTime
        )
        and not c.__name__.startswith("Abstract")
    }
    assert names == finite
