"""Fourier basis: transforms as NumPy's, their transposes, dealiased products."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde


GRIDS = [pde.Grid((7, 6), 0.0, (2.0, 1.0)), pde.Grid((4, 5, 6)), pde.Grid(8, 0.3, 2.0)]


def fields(grid, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(2, *grid.shape)))


@pytest.mark.gpu
@pytest.mark.parametrize("grid", GRIDS)
def test_transforms_match_numpy(grid):
    u, modes = fields(grid), pde.FourierBasis(grid)
    axes = range(-grid.ndim, 0)
    z = np.fft.rfftn(u, axes=axes)
    np.testing.assert_allclose(modes.fft(u), z, atol=1e-13)
    np.testing.assert_allclose(modes.ifft(z), u, atol=1e-14)
    assert modes.shape == z.shape[1:]


@pytest.mark.parametrize("grid", first_plain(GRIDS, 2))
def test_truncated_transforms_match_full_ones(grid):
    every, low, u = (
        pde.FourierBasis(grid),
        pde.FourierBasis(grid).dealiased(),
        fields(grid),
    )

    @jax.jit
    def pairs(u):
        z = low.fft(u)
        padded = low.zero_pad_modes(z)
        forth = z, low.truncate_modes(every.fft(u))
        back = low.ifft(z), every.ifft(padded)
        return forth, (low.truncate_modes(padded), z), back

    for (one, other), atol in zip(pairs(u), (1e-13, 0, 0), strict=True):
        np.testing.assert_allclose(one, other, atol=atol)
    k, lowest = every.wavenumbers, low.wavenumbers
    for a, b in zip(k, lowest, strict=True):
        wide = jnp.broadcast_to(a, every.shape)
        np.testing.assert_allclose(
            low.truncate_modes(wide), jnp.broadcast_to(b, low.shape), rtol=1e-14
        )


@pytest.mark.parametrize("grid", first_plain(GRIDS, 2))
@pytest.mark.parametrize("degree", [1, 2])
def test_project_real_is_fft_of_ifft(grid, degree):
    modes = pde.FourierBasis(grid)
    modes = modes if degree == 1 else modes.dealiased(degree)
    real, imag = np.random.default_rng(4).normal(size=(2, 3, *modes.shape))
    z = jnp.asarray(real + 1j * imag)
    there_and_back = jax.jit(lambda z: modes.fft(modes.ifft(z)))(z)
    found = eqx.filter_jit(modes.project_real)(z)
    np.testing.assert_allclose(found, there_and_back, atol=1e-13)


@pytest.mark.gpu
@pytest.mark.parametrize("grid", first_plain(GRIDS, 2))
@pytest.mark.parametrize("degree", [1, 2])
def test_transforms_have_correct_transposes(grid, degree):
    """<A u, z> = <u, Aᵀ z> in real and imaginary parts, as JAX pairs them."""
    modes = pde.FourierBasis(grid)
    modes = modes if degree == 1 else modes.dealiased(degree)
    rng = np.random.default_rng(1)

    def noise(z):
        real, imag = rng.normal(size=(2, *z.shape))
        return jnp.asarray(real + 1j * imag if jnp.iscomplexobj(z) else real)

    u = fields(grid)
    z = noise(modes.fft(u))
    whole = noise(modes.zero_pad_modes(z))
    maps = [(modes.fft, u), (modes.ifft, z)]
    maps += [(modes.truncate_modes, whole), (modes.zero_pad_modes, z)]
    for function, there in maps:
        bar = noise(function(there))
        _, pull = jax.vjp(lambda a, f=function: f(a), there)
        left = np.sum(np.real(function(there) * bar))
        np.testing.assert_allclose(left, np.sum(np.real(there * pull(bar)[0])))


def test_derivatives_of_transforms_pass_through_vmap_and_twice():
    modes, u = pde.FourierBasis(GRIDS[0]).dealiased(), fields(GRIDS[0])

    def energy(u):
        return jnp.sum(modes.ifft(modes.laplacian(modes.fft(u))) ** 2)

    slope = jax.jit(jax.grad(energy))
    one = jnp.stack([slope(a) for a in u])
    np.testing.assert_allclose(jax.jit(jax.vmap(slope))(u), one, rtol=1e-12)
    h = jax.jit(jax.hessian(energy))(u[0]).reshape(42, 42)
    np.testing.assert_allclose(h @ u[0].ravel(), one[0].ravel(), rtol=1e-10)


@pytest.mark.parametrize("n", [15, 16])
@pytest.mark.parametrize("degree", [2, 3])
def test_dealiased_products_are_exact(n, degree):
    """Beside the same on a grid that is fine enough for all of the product."""
    coarse, fine = pde.Grid(n), pde.Grid(4 * n)
    low = pde.FourierBasis(coarse).dealiased(degree)
    z = low.fft(fields(coarse)[0])
    same = pde.FourierBasis(fine, low.max_mode)
    shift = np.exp(1j * np.asarray(low.wavenumbers[0]) * 1.5 / fine.shape[0])
    power = low.fft(low.ifft(z) ** degree)
    # Cells of the fine grid begin elsewhere.
    wave = same.ifft(4 * z / shift)
    np.testing.assert_allclose(power, same.fft(wave**degree) * shift / 4, atol=1e-12)
    next_one = pde.FourierBasis(coarse, (low.max_mode[0] + 1,))
    assert (degree + 1) * next_one.max_mode[0] >= n


def test_derivatives_and_inverse_laplacian_are_exact():
    grid = pde.Grid((16, 12), (0.0, 1.0), (2.0, 2.5))
    modes, (x, y) = pde.FourierBasis(grid), grid.centers
    a, b = 2 * np.pi * 3 / 2.0, 2 * np.pi * 2 / 1.5
    u = jnp.sin(a * x) * jnp.cos(b * (y - 1))
    z = modes.fft(u)
    third = modes.ifft(modes.derivative(0, 3) * z)
    np.testing.assert_allclose(
        third, -(a**3) * jnp.cos(a * x) * jnp.cos(b * (y - 1)), atol=1e-9
    )
    slope = modes.ifft(modes.gradient(z))[1]
    np.testing.assert_allclose(
        slope, -b * jnp.sin(a * x) * jnp.sin(b * (y - 1)), atol=1e-11
    )
    again = modes.inverse_laplacian(modes.laplacian(modes.fft(u + 3)))
    np.testing.assert_allclose(modes.ifft(again), u, atol=1e-12)


def test_nyquist_mode_has_no_odd_derivative():
    modes = pde.FourierBasis(pde.Grid(8))
    assert modes.derivative(0)[-1] == 0
    assert modes.derivative(0, 2)[-1] != 0
    assert pde.FourierBasis(pde.Grid(7)).derivative(0)[-1] != 0
