"""Derivatives of a run of every family by its default method, at the steps it took."""

import pytest

from diffsim.cli._derivative_table import slopes


pytestmark = pytest.mark.optimized


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Fisher-KPP in 1D",  # by an implicit method
        "Gray-Scott",  # two fields, by an implicit method
        "shallow water",  # finite volumes, at the CFL limit
        "velocity",  # in Fourier space
        "waves",
        "incompressible flow",
    ],
)
def test_derivatives_of_every_family_are_correct_by_its_default_method(name):
    found = slopes(name, None)
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves), found
