"""Derivatives of every equation by all that it holds, and of every integrator.

At fixed steps: `test_derivatives` freezes those of a controller, family by family.
"""

import pytest

from diffsim import integrators
from diffsim.cli._derivative_table import slopes
from diffsim.problems import PDE_PROBLEMS


#: All but those of `test_derivatives`, by the solvers of their default methods.
EQUATIONS = (
    "heat",
    "nonlinear heat",
    "Allen-Cahn",
    "advection-diffusion",
    "Burgers",
    "Euler",
    "Korteweg-de Vries",
    "Kuramoto-Sivashinsky",
    "Cahn-Hilliard",
)
#: Equations by solvers that are no default, every solver once. Of Fisher-KPP, implicit
#: stages in the plane are those of "heat".
SOLVERS = {
    "ETDRK2": ("heat in Fourier space", integrators.ETDRK2()),
    "ETDRK4": ("vorticity", integrators.ETDRK4()),
    "SSPRK3": ("Fisher-KPP", integrators.SSPRK3()),
    "KenCarp3": ("Fisher-KPP in 1D", integrators.KenCarp3()),
    "KenCarp4 solving for drag": ("incompressible flow", integrators.KenCarp4()),
    "Kvaerno3": ("heat in 1D", integrators.Kvaerno3()),
    "ARS222": ("Fisher-KPP in 1D", integrators.ARS222()),
    "ARS443": ("Fisher-KPP in 1D", integrators.ARS443()),
    "CrankNicolson": ("heat in 1D", integrators.CrankNicolson()),
    "Leapfrog": ("waves", integrators.Leapfrog()),
    "Yoshida4": ("Schrodinger", integrators.Yoshida4()),
}
#: Those of `test_derivatives` that no solver above goes with.
FAMILIES = {"Gray-Scott", "shallow water", "velocity"}


def test_every_equation_has_a_row():
    named = {*EQUATIONS, *FAMILIES, *(name for name, _ in SOLVERS.values())}
    assert named == PDE_PROBLEMS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUATIONS)
def test_derivatives_of_every_equation_are_correct(name):
    _assert_correct(name, PDE_PROBLEMS[name]().default_method().solver)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_derivatives_of_every_integrator_are_correct(solver):
    _assert_correct(*SOLVERS[solver])


def _assert_correct(name, solver):
    found = slopes(name, solver)
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves), found
