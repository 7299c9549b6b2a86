"""Fields evolve at a Julian date as they do at time zero, by every kind of dynamics."""

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import integrators, pde
from diffsim.simulations import Method, simulate


_DATE = 2451545.0
_GRID = pde.Grid(16)


def evolution(law, t0, dtype):
    """Of a wall that moves as the time since `t0`, where the equation has walls."""
    (x,) = _GRID.centers
    kind = {"dtype": dtype}
    start = (0.5 + 0.2 * jnp.sin(2 * jnp.pi * x)).astype(dtype)
    wall = pde.Dirichlet(0.0)
    if dtype == jnp.float64:
        # Of a date singles know a quarter.
        wall = pde.Dirichlet(lambda t, x: jnp.sin(4 * (t - t0)) + 0 * x[0])
    half = jnp.asarray(0.05, **kind)
    made = {
        "implicit": (pde.Diffusion(half), start, wall),
        "explicit": (pde.Burgers(half), start, None),
        "modes": (pde.KuramotoSivashinsky(), start, None),
        "flows": (
            pde.Wave(jnp.ones((), **kind), damping=half),
            jnp.stack([start, 0 * start]),
            wall,
        ),
    }
    equation, field, boundary = made[law]
    return pde.Evolution(equation, field, _GRID, boundary, t0=t0)


_METHODS = {
    "implicit": Method(integrators.KenCarp3(), 0.02),
    "explicit": Method(integrators.SSPRK3(), controller=pde.CFL(0.4)),
    "modes": Method(integrators.ETDRK4(), 1e-4),
    "flows": Method(integrators.Leapfrog(), 0.01),
}


@pytest.mark.parametrize(
    ("dtype", "law"),
    first_plain(
        [
            (jnp.float64, "implicit"),
            (jnp.float32, "explicit"),
            (jnp.float64, "flows"),
            (jnp.float32, "modes"),
            (jnp.float32, "implicit"),
            (jnp.float64, "explicit"),
            (jnp.float64, "modes"),
            (jnp.float32, "flows"),
        ],
        2,
    ),
)
def test_fields_at_julian_date_match_those_at_time_zero(law, dtype):
    steps = 0.25 if law == "modes" else 1.0
    times = steps * np.array([2.0**-6, 2.0**-4])
    near = simulate(evolution(law, 0.0, dtype), times, _METHODS[law])
    far = simulate(evolution(law, _DATE, dtype), _DATE + times, _METHODS[law])
    # float64 knows a date to 5e-10, at which the wall moves by 2e-9
    atol = 1e-5 if dtype == jnp.float32 else 1e-8
    np.testing.assert_allclose(far.states, near.states, atol=atol)
    assert far.stats["num_steps"] == near.stats["num_steps"]
