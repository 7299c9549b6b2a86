"""Source terms: sources, closures, forces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


RING = pde.Grid(16, 0.0, 2 * np.pi)
G = 9.81


@pytest.mark.slow
def test_gas_in_free_fall():
    """v = −g t where nothing else acts, and heat stays what it was."""
    gas = pde.Euler(1.4, source=lambda t, x, u: -G * jnp.stack([0 * u[0], u[0], u[1]]))
    start = gas.state(1.2 * jnp.ones(16), jnp.full((1, 16), 0.3), jnp.ones(16))
    run = pde.Evolution(gas, start, RING)
    method = ds.Method(integrators.SSPRK3(), step=0.01)
    density, v, pressure = gas.fields(ds.simulate(run, 0.2, method).states)
    np.testing.assert_allclose(density, 1.2, rtol=1e-14)
    np.testing.assert_allclose(v, 0.3 - 0.2 * G, rtol=1e-12)
    np.testing.assert_allclose(pressure, 1, rtol=1e-12)


def test_wind_stress_accelerates_water():
    wind = jnp.array([0.0, 0.4])[:, None]
    water = pde.ShallowWater(G, source=wind)
    start = jnp.stack([2 * jnp.ones(16), jnp.zeros(16)])
    method = ds.Method(integrators.SSPRK3(), step=0.01)
    states = ds.simulate(pde.Evolution(water, start, RING), 0.1, method).states
    np.testing.assert_allclose(states[0], 2, rtol=1e-14)
    np.testing.assert_allclose(states[1], 0.04, rtol=1e-12)


#: Laws, what they make of u and its derivatives, and the error that is left: modes have
#: none of space, sixteen cells a wave one of 1/1000.
MADE_UP = {
    "Korteweg-de Vries": (
        pde.KortewegDeVries,
        lambda u, d: -6 * u * d(1) - d(3),
        1e-7,
    ),
    "Burgers with a viscosity that varies": (
        eqx.Partial(pde.Burgers, lambda t, x, u: 0.3 + 0.1 * u),
        lambda u, d: -u * d(1) + (0.3 + 0.1 * u) * d(2) + 0.1 * d(1) ** 2,
        2e-3,
    ),
    "Kuramoto-Sivashinsky": (
        pde.KuramotoSivashinsky,
        lambda u, d: -u * d(1) - d(2) - d(4),
        1e-7,
    ),
    "Burgers": (
        eqx.Partial(pde.Burgers, 0.3),
        lambda u, d: -u * d(1) + 0.3 * d(2),
        2e-3,
    ),
}
#: The derivatives of a sine, one after another.
SINES = (jnp.sin, jnp.cos, lambda a: -jnp.sin(a), lambda a: -jnp.cos(a))


@pytest.mark.parametrize("name", first_plain(MADE_UP, 2))
def test_manufactured_sources_give_their_solutions(name):
    """u = p sin(x − t) + 1/2, with a source that knows p and the field."""
    law, rate, most = MADE_UP[name]

    def wave(p, t, x):
        return p * jnp.sin(x - t) + 0.5

    def source(p, t, x, u):
        own = rate(wave(p, t, x), lambda n: p * SINES[n % 4](x - t))
        # The field that it is told of is the solution.
        return -p * jnp.cos(x - t) - own + u - wave(p, t, x)

    def error(p):
        (x,) = RING.centers
        made = law(source=lambda t, x, u: source(p, t, x[0], u))
        run = pde.Evolution(made, wave(p, 0.0, x), RING)
        spectral = isinstance(run.discretization, pde.Fourier)
        solver = integrators.ETDRK4() if spectral else integrators.SSPRK3()
        method = ds.Method(solver, step=0.01)
        return ds.simulate(run, 0.2, method).states[0] - wave(p, 0.2, x)

    value, slope = jax.jit(lambda p: jax.jvp(error, (p,), (1.0,)))(0.7)
    assert np.max(np.abs(value)) < most
    assert np.max(np.abs(slope)) < 3 * most


#: Equations beside the same ones written without a source.
ALIKE = {
    "spots fed by hand beside spots": (
        pde.GrayScott(
            0.0,
            0.5,
            (0.1, 0.05),
            source=lambda t, x, u: 0.3 * jnp.stack([1 - u[0], 0 * u[1]]),
        ),
        pde.GrayScott(0.3, 0.2, (0.1, 0.05)),
    ),
    "a hunt beside slower growth": (
        pde.FisherKPP(0.1, 0.9, 2.0, source=lambda t, x, u: -0.3 * u),
        pde.FisherKPP(0.1, 0.6, 4 / 3),
    ),
    "phases without reaction beside heat": (
        pde.AllenCahn(0.1, 1.3, source=lambda t, x, u: 1.3 * (u**3 - u)),
        pde.Diffusion(0.1),
    ),
}


@pytest.mark.parametrize("name", first_plain(ALIKE))
def test_field_dependent_sources_match_closed_forms(name):
    with_source, without = ALIKE[name]
    start = jnp.stack([0.5 + 0.2 * jnp.sin(RING.centers[0] + c) for c in range(2)])
    method = ds.Method(integrators.SSPRK3(), step=0.01)

    def end(law):
        run = pde.Evolution(law, start[: law.channels(1)], RING)
        return ds.simulate(run, 0.1, method).states

    np.testing.assert_allclose(end(with_source), end(without), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ndim"),
    [
        (pde.NavierStokesVorticity, 2),
        (pde.NavierStokesVelocity, 3),
    ],
)
def test_linear_forcing_equals_drag(kind, ndim):
    grid = pde.Grid(ndim * (6,), 0.0, 2 * np.pi)
    channels = kind(0.1).channels(ndim)
    noise = np.random.default_rng(0).normal(size=(channels, *grid.shape))
    # Forces are not in the modes that products alias into, drag is in all.
    low = pde.FourierBasis(grid).dealiased()
    start = low.ifft(low.fft(jnp.asarray(noise)))
    method = ds.Method(integrators.ETDRK4(), step=0.01)

    def end(law):
        run = pde.Evolution(law, start, grid)
        return ds.simulate(run, 0.1, method).states

    forced = end(kind(0.1, lambda t, x, u: -0.2 * u))
    dragged = end(kind(0.1, drag=0.2))
    np.testing.assert_allclose(forced, dragged, atol=1e-9)


def test_oono_puri_source_relaxes_the_mean():
    """d⟨u⟩/dt = −σ(⟨u⟩ − m): all else keeps the mean (Oono and Puri)."""
    law = pde.CahnHilliard(0.3, 0.9, source=lambda t, x, u: -0.7 * (u - 0.2))
    start = 0.5 + 0.1 * jnp.sin(RING.centers[0])
    run = pde.Evolution(law, start, RING)
    method = ds.Method(integrators.ETDRK4(), step=0.01)
    mean = np.mean(ds.simulate(run, 0.5, method).states)
    np.testing.assert_allclose(mean, 0.2 + 0.3 * np.exp(-0.35), rtol=1e-10)


def test_sine_gordon_kink_travels():
    """4 arctan exp γ(x − vt), γ² = 1/(1 − v²), in value and derivative by v."""
    line = pde.Grid(400, -10.0, 10.0)

    def kink(v, t, x):
        return 4 * jnp.arctan(jnp.exp((x - v * t) / jnp.sqrt(1 - v**2)))

    def error(v):
        (x,) = line.centers
        now = jax.jvp(lambda t: kink(v, t, x), (0.0,), (1.0,))
        law = pde.Wave(1.0, source=lambda t, x, u: -jnp.sin(u))
        ends = (pde.Dirichlet(0.0), pde.Dirichlet(2 * np.pi))
        run = pde.Evolution(law, jnp.stack(now), line, (ends,))
        method = ds.Method(integrators.Leapfrog(), step=0.025)
        return ds.simulate(run, 4.0, method).states[0] - kink(v, 4.0, x)

    value, slope = jax.jit(lambda v: jax.jvp(error, (v,), (1.0,)))(0.5)
    assert np.max(np.abs(value)) < 2e-3
    assert np.max(np.abs(slope)) < 2e-2
