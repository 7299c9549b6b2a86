"""Inside `refined_steps` every run has a smaller error, and is listed."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, refined_steps, simulate


TIMES = np.array([1.0, 2.0])
LOOSE = diffrax.PIDController(rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "ratio"),
    first_plain(
        [
            # second order: half the step, a quarter of the error
            (Method(Leapfrog(), 0.1), 4),
            # its local error is held to a tenth of the tolerance
            (Method(diffrax.Tsit5(), controller=LOOSE), 10),
        ]
    ),
    ids=["half the step", "a tenth of the tolerance"],
)
def test_refined_errors_are_smaller_by_the_order_of_the_solver(driven, method, ratio):
    exact = simulate(driven(), TIMES, Method(diffrax.Dopri8(), 0.01)).states[0]
    coarse = simulate(driven(), TIMES, method).states[0]
    with refined_steps() as methods:
        fine = simulate(driven(), TIMES, method).states[0]
    assert len(methods) == 1
    before, after = (jnp.linalg.norm(x - exact) for x in (coarse, fine))
    assert ratio / 2 < before / after < 2.5 * ratio
    again = simulate(driven(), TIMES, method).states[0]
    np.testing.assert_array_equal(again, coarse)


def test_frozen_steps_are_not_refined(driven):
    method = Method(diffrax.Tsit5(), controller=LOOSE)
    first = simulate(driven(), TIMES, method)
    with refined_steps() as methods:
        second = simulate(driven(), TIMES, method.freeze_steps(first))
    assert not methods
    np.testing.assert_allclose(second.states[0], first.states[0], rtol=1e-12)


def test_tolerances_at_machine_precision_are_loosened_instead(driven):
    """A tenth of 3e-15 is less than rounding leaves of the error of a step."""
    at_rounding = diffrax.PIDController(rtol=3e-15, atol=3e-15)
    method = Method(diffrax.Dopri8(), controller=at_rounding)
    with refined_steps() as methods:
        fine = simulate(driven(), TIMES, method)
    assert methods[0].controller.rtol == pytest.approx(3e-14, abs=0)
    exact = driven().exact(TIMES[-1])
    # rounding of 20 to 60 steps, an ulp each
    assert np.max(np.abs(fine.states[-1] - exact)) < 1e-14


def test_refined_default_tolerance_depends_on_the_dtype_of_the_state(driven):
    """Of singles 25 ulps, which are at rounding, and not that of doubles."""
    with refined_steps() as methods:
        simulate(driven(dtype=jnp.float32), TIMES, Method(diffrax.Tsit5()))
        simulate(driven(), TIMES, Method(diffrax.Tsit5()))
    single, double = (method.controller.rtol for method in methods)
    assert single == pytest.approx(10 * 25 * np.finfo(np.float32).eps)
    assert double == pytest.approx(1e-9)


def test_previously_compiled_run_is_refined_too(driven):
    @jax.jit
    def run(k):
        return simulate(driven(k=k), TIMES, Method(Leapfrog(), 0.1)).states

    plain = run(2.0)
    for _ in range(2):
        with refined_steps() as methods:
            fine = run(2.0)
        assert len(methods) == 1
        assert jnp.max(jnp.abs(fine - plain)) > 1e-4
    np.testing.assert_array_equal(run(2.0), plain)
