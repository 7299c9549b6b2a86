"""Equations in Fourier space, beside closed forms and other formulations."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import ETDRK2, ETDRK4
from diffsim.verify import check_simulation


CIRCLE = pde.Grid(32, 0.0, 2 * np.pi)
SQUARE = pde.Grid((24, 16), 0.0, 2 * np.pi)


def after(equation, start, grid, t, step=0.01, solver=None, **options):
    run = pde.Evolution(equation, start, grid, **options)
    solver = ETDRK4() if solver is None else solver
    return ds.simulate(run, t, ds.Method(solver, step)).states


@pytest.mark.parametrize("potential", [False, True])
@pytest.mark.parametrize("k", first_plain([2, 1, 5]))
def test_small_kuramoto_sivashinsky_waves_grow_at_linear_rate(k, potential):
    equation = pde.KuramotoSivashinsky(1.3, 0.7, potential=potential)
    wave = 1e-9 * jnp.cos(k * CIRCLE.centers[0])
    found = after(equation, wave, CIRCLE, 0.5)[0]
    growth = np.exp(0.5 * (1.3 * k**2 - 0.7 * k**4))
    # The nonlinear part is as small as the wave.
    np.testing.assert_allclose(found, growth * wave, atol=1e-8 * 1e-9)


def test_slope_of_potential_form_obeys_slope_form():
    x = CIRCLE.centers[0]
    height = jnp.sin(x) + jnp.cos(2 * x) / 2
    slope = jnp.cos(x) - jnp.sin(2 * x)
    front, method = pde.KuramotoSivashinsky(potential=True), (0.3, 0.002, ETDRK2())
    found = after(front, height, CIRCLE, *method)
    modes = pde.FourierBasis(CIRCLE)
    found = modes.ifft(modes.derivative(0) * modes.fft(found))
    # Products are cut at the same modes in either form.
    other = after(pde.KuramotoSivashinsky(), slope, CIRCLE, *method)
    np.testing.assert_allclose(found, other, atol=1e-9)


def test_modes_of_no_real_field_do_not_grow_from_rounding():
    """A front that is the same all along y, for a hundred times its time of growth.

    Its modes come in pairs, the waves (k, 0) and (−k, 0), which rounding sets apart.
    """
    line, square = pde.Grid(12, 0.0, 9.0), pde.Grid((12, 6), 0.0, (9.0, 4.0))
    k, equation = 2 * np.pi / 9, pde.KuramotoSivashinsky(potential=True)
    x = line.centers[0]
    wave = jnp.cos(k * x + 0.3) + 0.3 * jnp.sin(2 * k * x)
    wide = jnp.broadcast_to(wave[:, None], square.shape)
    found = after(equation, wide, square, 400.0, 0.25, ETDRK2())
    exact = after(equation, wave, line, 400.0, 0.25, ETDRK2())
    np.testing.assert_allclose(found, np.broadcast_to(exact[..., None], found.shape))


@pytest.mark.slow
def test_solitons_keep_their_shape():
    grid = pde.Grid(256, -20.0, 20.0)

    def soliton(t, k):
        return 2 * k**2 / jnp.cosh(k * (grid.centers[0] - 4 * k**2 * t)) ** 2

    def end(k, step):
        return after(pde.KortewegDeVries(), soliton(0.0, k), grid, 1.0, step)[0]

    exact = jax.jvp(lambda k: soliton(1.0, k), (0.7,), (1.0,))
    errors = [
        [np.max(np.abs(a - b)) for a, b in zip(found, exact, strict=True)]
        for found in (
            jax.jvp(lambda k, h=h: end(k, h), (0.7,), (1.0,)) for h in (0.005, 0.0025)
        )
    ]
    # Of the value and of its derivative by the width, which moves the soliton.
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 4, atol=0.1)
    assert errors[1][0] < 1e-8


def vortices(t, nu):
    """Taylor and Green's: u = −cos x sin y, v = sin x cos y, decaying by 2ν."""
    x, y = SQUARE.centers
    return 2 * jnp.cos(x) * jnp.cos(y) * jnp.exp(-2 * nu * t)


@pytest.mark.gpu
def test_taylor_green_vortices_decay_at_their_rate_with_derivative():
    def end(nu):
        law = pde.NavierStokesVorticity(nu)
        return after(law, vortices(0.0, nu), SQUARE, 0.7, 0.05, ETDRK2())[0]

    @jax.jit
    def derivatives(nu):
        weights = vortices(0.0, nu) / jnp.sum(vortices(0.0, nu) ** 2)
        return *jax.jvp(end, (nu,), (1.0,)), jax.vjp(end, nu)[1](weights)[0]

    found, slope, back = derivatives(0.2)
    exact = np.exp(-2 * 0.2 * 0.7)
    np.testing.assert_allclose(found, exact * vortices(0.0, 0.2), atol=1e-12)
    np.testing.assert_allclose(slope, -1.4 * exact * vortices(0.0, 0.2), atol=1e-12)
    np.testing.assert_allclose(back, -1.4 * exact, atol=1e-12)


def velocity_of_vortices(t, nu, mean=0.0):
    """With a mean flow along x the vortices are carried along."""
    x, y = SQUARE.centers[0] - mean * t, SQUARE.centers[1]
    decay = jnp.exp(-2 * nu * t)
    u = mean - decay * jnp.cos(x) * jnp.sin(y)
    return jnp.stack([u, decay * jnp.sin(x) * jnp.cos(y)])


@pytest.mark.parametrize("mean", first_plain([0.8, 0.0]))
def test_velocity_form_has_taylor_green_vortices_also_in_a_mean_flow(mean):
    def end(nu):
        start = velocity_of_vortices(0.0, nu, mean)
        return after(pde.NavierStokesVelocity(nu), start, SQUARE, 0.7, 0.01)

    exact = jax.jvp(lambda nu: velocity_of_vortices(0.7, nu, mean), (0.2,), (1.0,))
    found = jax.jit(lambda nu: jax.jvp(end, (nu,), (1.0,)))(0.2)
    # Carried along the vortices are those of ETDRK4, of order 4 in time.
    np.testing.assert_allclose(found, exact, atol=1e-12 if mean == 0 else 1e-9)


def test_velocity_form_agrees_with_vorticity_form_in_two_dimensions():
    x, y = SQUARE.centers
    stream = jnp.sin(x + 2 * y) + jnp.cos(2 * x - y) / 2 + jnp.sin(3 * x) / 3
    modes = pde.FourierBasis(SQUARE)
    z = modes.fft(stream)
    u = modes.ifft(jnp.stack([modes.derivative(1) * z, -modes.derivative(0) * z]))
    push = jnp.stack([jnp.sin(2 * y), 0 * y])
    by_velocity = pde.Evolution(
        pde.NavierStokesVelocity(0.02, push, drag=0.1), u, SQUARE
    )
    by_vorticity = pde.Evolution(
        pde.NavierStokesVorticity(0.02, -2 * jnp.cos(2 * y), drag=0.1),
        pde.vorticity(by_velocity, u),
        SQUARE,
    )
    method = ds.Method(diffrax.Heun(), 0.01)
    u, vorticity = (
        ds.simulate(run, 0.4, method).states for run in (by_velocity, by_vorticity)
    )
    np.testing.assert_allclose(pde.vorticity(by_velocity, u), vorticity[0], atol=1e-10)
    np.testing.assert_allclose(pde.velocity(by_vorticity, vorticity), u, atol=1e-10)
    for f in (pde.energy, pde.enstrophy):
        np.testing.assert_allclose(
            f(by_velocity, u), f(by_vorticity, vorticity), rtol=1e-10
        )


def test_vorticity_form_agrees_with_velocity_form_in_three_dimensions():
    """One equation for vorticity, the other for velocity: nothing in common."""
    x, y = SQUARE.centers
    stream = jnp.sin(x + 2 * y) + jnp.cos(2 * x - y) / 2 + jnp.sin(3 * x) / 3
    modes = pde.FourierBasis(SQUARE)

    def slope(axis, f):
        return modes.ifft(modes.derivative(axis) * modes.fft(f))

    u, v = slope(1, stream), -slope(0, stream)
    vorticity = slope(0, v) - slope(1, u)
    push = jnp.sin(2 * y)

    planar = pde.NavierStokesVorticity(0.02, -2 * jnp.cos(2 * y), drag=0.1)
    heun = diffrax.Heun()
    found = after(planar, vorticity, SQUARE, 0.4, solver=heun)[0]

    deep = pde.Grid((*SQUARE.shape, 4), 0.0, 2 * np.pi)
    start, push = (
        jnp.stack([jnp.broadcast_to(a[..., None], deep.shape) for a in field])
        for field in ([u, v, 0 * u], [push, 0 * u, 0 * u])
    )
    spatial = pde.NavierStokesVelocity(0.02, lambda t, x, u: push, drag=0.1)
    u, v, w = after(spatial, start, deep, 0.4, solver=heun)[..., 1]
    np.testing.assert_allclose(slope(0, v) - slope(1, u), found, atol=1e-10)
    np.testing.assert_allclose(w, 0, atol=1e-12)


@pytest.mark.gpu
def test_beltrami_flow_decays_without_change_of_shape():
    """Arnold, Beltrami and Childress: curl u = u, so that u × ω vanishes."""
    grid = pde.Grid((8, 8, 8), 0.0, 2 * np.pi)
    x, y, z = grid.centers
    a, b, c = 1.0, 0.7, 0.4
    flow = jnp.stack(
        [
            a * jnp.sin(z) + c * jnp.cos(y),
            b * jnp.sin(x) + a * jnp.cos(z),
            c * jnp.sin(y) + b * jnp.cos(x),
        ]
    )
    # What diverges is taken by the pressure, at once.
    diverging = jnp.stack([jnp.sin(x + y), jnp.sin(x + y), 0 * z])
    law = pde.NavierStokesVelocity(0.3)
    found = after(law, flow + diverging, grid, 0.5, 0.05, ETDRK2())
    np.testing.assert_allclose(found, np.exp(-0.15) * flow, atol=1e-12)


@pytest.mark.parametrize(
    ("form", "ndim"),
    first_plain([("vorticity", 2), ("velocity", 3), ("velocity", 2)], 2),
)
def test_nonlinear_part_conserves_energy_and_is_solenoidal(form, ndim):
    grid = pde.Grid((9, 10, 12)[:ndim])
    kind = (
        pde.NavierStokesVorticity if form == "vorticity" else pde.NavierStokesVelocity
    )
    equation = kind(0.1)
    modes = pde.FourierBasis(grid).dealiased()
    rng = np.random.default_rng(0)
    u = jnp.asarray(rng.normal(size=(equation.channels(ndim), *grid.shape)))
    z = modes.fft(u)
    if form == "velocity":
        k = np.stack([np.broadcast_to(a, modes.shape) for a in modes.wavenumbers])
        squared = np.asarray(modes.wavenumber_squared)
        z = np.asarray(z)
        z = z - k * np.sum(k * z, 0) / np.where(squared > 0, squared, 1)
    rate = jax.jit(lambda z: modes.ifft(equation.nonlinear(0.0, z, modes)))(z)
    # Energy is ∫u², or ∫ψω of a vorticity, which keeps ∫ω² as well.
    weights = [modes.ifft(z)]
    weights += [modes.ifft(modes.inverse_laplacian(z))] if form == "vorticity" else []
    for weight in weights:
        product = np.asarray(weight) * np.asarray(rate)
        assert abs(np.sum(product)) < 1e-13 * np.sum(np.abs(product))
    if form == "velocity":
        divergence = np.sum(k * np.asarray(modes.fft(rate)), 0)
        assert np.max(np.abs(divergence)) < 1e-11 * np.max(np.abs(rate))


TIMES = [0.02, 0.04]
SMALL = {
    "front": (pde.KuramotoSivashinsky(potential=True), pde.Grid((6, 5), 0.0, 9.0)),
    "flame": (pde.KuramotoSivashinsky(), pde.Grid(8, 0.0, 9.0)),
    "soliton": (pde.KortewegDeVries(), pde.Grid(8, 0.0, 9.0)),
    "vorticity": (pde.NavierStokesVorticity(0.1, drag=0.2), pde.Grid((6, 5), 0.0, 3.0)),
    "velocity": (
        pde.NavierStokesVelocity(0.1, jnp.ones(())),
        pde.Grid((4, 5, 4), 0.0, 3.0),
    ),
}


def small(name):
    equation, grid = SMALL[name]
    rng = np.random.default_rng(3)
    start = rng.normal(size=(equation.channels(grid.ndim), *grid.shape))
    return pde.Evolution(equation, jnp.asarray(start), grid)


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(ETDRK4(), 0.02)
    check_simulation(small("soliton"), TIMES, method).raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_explicit_and_exponential_steps_agree(name):
    run = small(name)
    method = ds.Method(diffrax.Dopri8(), 0.0005)
    exact = ds.simulate(run, 0.02, method).states
    found = ds.simulate(run, 0.02, ds.Method(ETDRK4(), 0.0005)).states
    np.testing.assert_allclose(found, exact, atol=1e-8)


def test_the_default_method_agrees_with_small_steps():
    run = small("vorticity")
    exact = ds.simulate(run, 0.3, ds.Method(ETDRK4(), 0.001)).states
    found = ds.simulate(run, 0.3).states
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_single_precision_stays_single():
    equation, grid = SMALL["vorticity"]
    start = jnp.ones(grid.shape, jnp.float32)
    run = pde.Evolution(equation, start, grid)
    method = ds.Method(ETDRK4(), 0.05)
    found = jax.eval_shape(lambda: ds.simulate(run, 0.1, method).states)
    assert found.dtype == jnp.float32
