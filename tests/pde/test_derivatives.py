"""Derivatives of every equation by its default method, and of every integrator."""

import pytest

from diffsim import integrators
from diffsim.cli._derivative_table import slopes
from diffsim.problems import PDE_PROBLEMS


#: Others of the same equations, which serve steppings.
LINES = {"heat in 1D", "Fisher-KPP in 1D"}
MANUFACTURED_PROBLEMS = [name for name in PDE_PROBLEMS if name not in LINES]

STEPPINGS = {
    "ETDRK2": ("heat in Fourier space", integrators.ETDRK2()),
    "ETDRK4": ("vorticity", integrators.ETDRK4()),
    "KenCarp3": ("Fisher-KPP in 1D", integrators.KenCarp3()),
    "KenCarp4 solving for drag": ("incompressible flow", integrators.KenCarp4()),
    "Kvaerno3": ("heat in 1D", integrators.Kvaerno3()),
    "ARS222": ("Fisher-KPP in 1D", integrators.ARS222()),
    "ARS443": ("Fisher-KPP in 1D", integrators.ARS443()),
    "CrankNicolson": ("heat in 1D", integrators.CrankNicolson()),
    "SSPRK3": ("Burgers", integrators.SSPRK3()),
    "Leapfrog": ("waves", integrators.Leapfrog()),
    "Yoshida4": ("Schrodinger", integrators.Yoshida4()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MANUFACTURED_PROBLEMS)
def test_derivatives_of_every_equation_are_correct_by_its_default_method(name):
    found = slopes(name, None)
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves), found


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPPINGS)
def test_derivatives_of_every_integrator_are_correct(name):
    found = slopes(*STEPPINGS[name])
    assert found.passed, found
    assert found.disagreement < 1e-10
