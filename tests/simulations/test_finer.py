"""Inside `finer_steps` every run has a smaller error, and it is said which were."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, finer_steps, simulate


TIMES = np.array([1.0, 2.0])
LOOSE = diffrax.PIDController(rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "ratio"),
    [
        # second order: half the step, a quarter of the error
        (Method(Leapfrog(), 0.1), 4),
        # its local error is held to a tenth of the tolerance
        (Method(diffrax.Tsit5(), controller=LOOSE), 10),
    ],
    ids=["half the step", "a tenth of the tolerance"],
)
def test_errors_are_smaller_by_the_order_of_the_solver(driven, method, ratio):
    exact = simulate(driven(), TIMES, Method(diffrax.Dopri8(), 0.01)).states[0]
    coarse = simulate(driven(), TIMES, method).states[0]
    with finer_steps() as methods:
        fine = simulate(driven(), TIMES, method).states[0]
    assert len(methods) == 1
    before, after = (jnp.linalg.norm(x - exact) for x in (coarse, fine))
    assert ratio / 2 < before / after < 2.5 * ratio
    again = simulate(driven(), TIMES, method).states[0]
    np.testing.assert_array_equal(again, coarse)


def test_given_steps_stay_as_given(driven):
    method = Method(diffrax.Tsit5(), controller=LOOSE)
    first = simulate(driven(), TIMES, method)
    with finer_steps() as methods:
        second = simulate(driven(), TIMES, method.frozen(first))
    assert not methods
    np.testing.assert_allclose(second.states[0], first.states[0], rtol=1e-12)
