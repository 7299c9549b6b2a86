"""The SABA family: as REBOUND's, and the energy to its published bounds."""

import numpy as np
import pytest
import rebound

from diffsim import nbody
from diffsim.nbody._wisdom_holman._saba_coefficients import (
    SCHEMES,
    SCHEMES_FOR_BOTH,
    palindrome,
)
from diffsim.simulations import Method, simulate


HELIOCENTRIC = "democratic heliocentric"


def outer_planets():
    simulation = rebound.Simulation()
    simulation.add("outer solar system")
    simulation.move_to_com()
    return simulation


@pytest.mark.parametrize(
    ("scheme", "corrector", "name"),
    [
        pytest.param(2, False, "2", marks=pytest.mark.slow),
        ((10, 6, 4), False, "10_6_4"),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                (1, False, "1"),
                (3, False, "3"),
                (4, False, "4"),
                (1, True, "CM_1"),
                (2, True, "CM_2"),
                (3, True, "CM_3"),
                (4, True, "CM_4"),
                ((10, 4), False, "10_4"),
                ((8, 6, 4), False, "8_6_4"),
                ((8, 4, 4), False, "H_8_4_4"),
            )
        ),
    ],
)
def test_steps_are_those_of_rebound(scheme, corrector, name):
    simulation, steps = outer_planets(), 200
    system = nbody.NBody.from_rebound(simulation)
    simulation.integrator = "saba"
    simulation.integrator.type = name
    simulation.integrator.safe_mode = 0
    simulation.dt = step = 0.0123 * simulation.particles[1].P
    simulation.steps(steps)
    simulation.synchronize()
    expected = [p.xyz for p in simulation.particles]
    method = Method(nbody.SABA(scheme, corrector=corrector), step=step)
    found = simulate(system, steps * step, method).states.positions
    # roundings of 1600 flows in 30 au
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "options", "bound"),
    [
        (2, {}, 1e-10),
        ((10, 6, 4), {}, 5e-13),
        (3, {}, 2e-11),
        (4, {}, 2e-11),
        (2, {"corrector": True}, 1e-10),
        (3, {"corrector": True}, 2e-11),
        (4, {"corrector": True}, 2e-11),
        ((10, 4), {}, 5e-13),
        ((8, 6, 4), {}, 5e-13),
        ((8, 4, 4), {}, 5e-13),
        ((8, 6, 4), {"coordinates": HELIOCENTRIC}, 5e-13),
        ((10, 6, 4), {"coordinates": "whds"}, 5e-13),
    ],
)
def test_energy_is_held_as_published(scheme, options, bound):
    """REBOUND's own bounds, and its step and time."""
    simulation = outer_planets()
    system = nbody.NBody.from_rebound(simulation)
    step = 0.0123235235 * simulation.particles[1].P
    steps = round(1000 * 2 * 3.1415 / step)
    method = Method(nbody.SABA(scheme, **options), step=step)
    states = simulate(system, np.array([0.0, steps * step]), method).states
    energy = nbody.energy(system, states)
    assert abs(energy[1] / energy[0] - 1) < bound


@pytest.mark.parametrize("table", [SCHEMES, SCHEMES_FOR_BOTH])
def test_coefficients_add_up(table):
    for scheme, (drifts, kicks, count) in table.items():
        kicks = palindrome(kicks, count)
        drifts = palindrome(drifts, count + 1)
        assert len(kicks) == count == len(drifts) - 1, scheme
        assert sum(kicks) == pytest.approx(1, abs=1e-14)
        assert sum(drifts) == pytest.approx(1, abs=1e-14)
        # kicks are a quadrature rule of order n₁ at the times between the drifts
        order = 2 * scheme if isinstance(scheme, int) else scheme[0]
        nodes = np.cumsum(drifts)[:-1]
        for power in range(order):
            exact = 1 / (power + 1)
            assert np.dot(kicks, nodes**power) == pytest.approx(exact, abs=1e-13)
        if table is SCHEMES_FOR_BOTH:
            assert sum(k**3 for k in kicks) == pytest.approx(0, abs=1e-13)


def test_scheme_may_be_a_list():
    assert nbody.SABA([8, 6, 4]) == nbody.SABA((8, 6, 4))
