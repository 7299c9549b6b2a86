"""Defaults serve float32, which is what JAX starts in."""

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


def plate(dtype, law, *, n=32, **options):
    grid = pde.Grid((n, n))
    x, y = grid.centers
    hot = jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    return pde.Evolution(law, hot.astype(dtype), grid, **options)


def string(dtype):
    grid = pde.Grid(64)
    u = jnp.sin(jnp.pi * grid.centers[0])
    start = jnp.stack([u, 0 * u]).astype(dtype)
    return pde.Evolution(pde.Wave(1.0), start, grid, pde.Dirichlet())


def rising(t, x, u):
    return 0.01 * (1 + u)


SYSTEMS = {
    "heat": lambda dtype: plate(dtype, pde.Diffusion(0.01), boundary=pde.Dirichlet()),
    "nonlinear heat": lambda dtype: plate(
        dtype, pde.Diffusion(rising), boundary=pde.Neumann()
    ),
    "invasion": lambda dtype: plate(
        dtype, pde.FisherKPP(0.01, 1.0), discretization=pde.Fourier()
    ),
    "swirl": lambda dtype: plate(dtype, pde.NavierStokesVorticity(0.01)),
    "wave": string,
}


@pytest.mark.parametrize("name", first_plain(SYSTEMS))
def test_default_steps_in_float32_are_as_few_as_in_float64(name):
    single, double = (
        ds.simulate(SYSTEMS[name](dtype), 0.5) for dtype in (jnp.float32, jnp.float64)
    )
    assert single.states.dtype == jnp.float32
    assert single.stats["num_steps"] <= 3 * double.stats["num_steps"]
    scale = np.max(np.abs(double.states))
    np.testing.assert_allclose(single.states, double.states, atol=1e-4 * scale)


@pytest.mark.parametrize("varies", first_plain([True, False]))
def test_many_short_implicit_steps_are_as_accurate_as_few(varies):
    """What is nearly right stays as it is, and the change alone is solved for."""
    grid = pde.Grid((12, 8), (0.0, 1.0), (2.0, 2.0))
    x, y = grid.centers
    walls = pde.Robin(1.0, 0.3, 0.2), pde.Neumann(0.1)

    def end(dtype):
        law = pde.Diffusion((0.1 + 0.02 * varies * jnp.sin(x)).astype(dtype))
        law = law if varies else pde.Diffusion(jnp.asarray(0.1, dtype))
        body = pde.Evolution(law, (jnp.sin(x) * y).astype(dtype), grid, walls)
        method = ds.Method(integrators.CrankNicolson(), step=0.003)
        return ds.simulate(body, 0.3, method).states

    # A direct solve in float32 of all of it leaves 7e-6.
    np.testing.assert_allclose(end(jnp.float32), end(jnp.float64), atol=7e-6)


@pytest.mark.slow
def test_stage_tolerance_respects_machine_precision():
    # Insulated, so that constants stay as they are however long the step, and the
    # residual has no room below its rounding.
    solutions = []
    for dtype in (jnp.float32, jnp.float64):
        run = plate(
            dtype,
            pde.Diffusion(lambda t, x, u: 0.01 * (1 + u**2)),
            n=128,
            boundary=pde.Neumann(),
        )
        length, start = jnp.asarray(3.0, dtype), run.initial
        found = run.equation.solve(0.0, start, length, start, run.domain)
        solutions.append(found)
    single, double = solutions
    np.testing.assert_allclose(single, double, atol=1e-5 * np.max(double))
