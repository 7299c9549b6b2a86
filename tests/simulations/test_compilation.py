"""Values of leaves compile nothing new, and precision is that of the initial state."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_METHODS = [
    Method(Leapfrog(), 0.1),
    Method(diffrax.Dopri5(), 0.1),
    Method(diffrax.Tsit5(), max_steps=64),
]


@pytest.mark.parametrize("method", _METHODS[::2], ids=["fixed", "adaptive"])
def test_other_values_compile_nothing_new(driven, method, compilations):
    def observe(t, y):
        return y[0]

    def run(times, **leaves):
        return simulate(driven(**leaves), times, method, observe=observe).states

    run([0.31, 0.57])
    before = compilations()
    assert before > 0
    for leaves in ({"k": 3.0}, {"a": -0.5}, {"start": (0.2, 1.0)}):
        run([0.31, 0.57], **leaves)
    # Between the same grid points, so that not even the number of steps differs.
    run([0.33, 0.59])
    assert compilations() == before


def test_another_epoch_array_compiles_nothing_new(driven, compilations):
    def observe(t, y):
        return y[0]

    method = Method(Leapfrog(), 0.1, max_steps=20)
    for epoch in (0.1, 0.3, -0.2):
        simulation = driven(t0=jnp.asarray(epoch))
        simulate(simulation, [0.3, 1.0], method, observe=observe)
        if epoch == 0.1:
            before = compilations()
    assert compilations() == before


@pytest.mark.parametrize(
    ("method", "dtype"),
    first_plain(
        [
            *((method, jnp.float32) for method in _METHODS),
            *((method, jnp.float64) for method in _METHODS[:2]),
        ],
        3,
    ),
)
def test_the_precision_of_the_initial_state_is_that_of_the_run(driven, method, dtype):
    # times on both sides in float64, the epoch a Python float
    times = np.array([-0.33, 0.5, 1.1])
    trajectory = simulate(driven(dtype=dtype, t0=0.1), times, method)
    assert trajectory.states.dtype == dtype
    np.testing.assert_array_equal(trajectory.times, times, strict=True)
    assert all(y.dtype == dtype for y in trajectory.final.y)
    exact = [driven(t0=0.1).exact(t) for t in times]
    np.testing.assert_allclose(trajectory.states, exact, atol=5e-3)


def test_an_integer_initial_state_becomes_the_default_float(driven):
    simulation = driven(dtype=jnp.int64, start=(1, 0), k=2, a=1)
    assert simulate(simulation, 1.0, _METHODS[0]).states.dtype == jnp.float64
