"""An initial field that is a function or a module, whose numbers are parameters."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.inference import Gaussian, fisher, fit


_STEPS = ds.Method(diffrax.Euler(), 0.002)


class Wave(eqx.Module):
    """A wave along the first axis, in the second component of several."""

    amplitude: jax.Array
    components: int = eqx.field(static=True)

    def __call__(self, x):
        wave = self.amplitude * jnp.sin(2 * jnp.pi * x[0])
        if self.components == 1:
            return wave
        return jnp.stack([0 * wave, wave])


def heat(amplitude):
    wave = Wave(jnp.asarray(amplitude), 1)
    return pde.Evolution(pde.Diffusion(0.1), wave, pde.Grid(16))


def flow(amplitude):
    """A shear wave, which decays without pressure: linear in its amplitude."""
    wave = Wave(jnp.asarray(amplitude), 2)
    walls = pde.Periodic()
    return pde.IncompressibleFlow(0.1, pde.Grid((8, 8)), walls, initial=wave)


def final(simulation):
    return ds.simulate(simulation, 0.02, _STEPS).states


@pytest.mark.parametrize("made", first_plain([heat, flow]))
def test_parameter_of_initial_module_has_correct_derivative(made):
    """Of an equation that is linear it is the state over the amplitude."""
    simulation = made(2.0)

    def run(amplitude):
        there = eqx.tree_at(lambda s: s.initial.amplitude, simulation, amplitude)
        return final(there)

    exact = np.asarray(final(simulation)) / 2
    assert np.max(np.abs(exact)) > 0.5
    both = jax.jit(lambda a: [d(run)(a) for d in (jax.jacfwd, jax.jacrev)])
    # sums of a few hundred terms
    for slope in both(2.0):
        np.testing.assert_allclose(slope, exact, atol=1e-14)
    many = jax.vmap(run)(jnp.array([1.0, 4.0]))
    np.testing.assert_allclose(many[1], 4 * exact, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("made", [heat, flow])
def test_parameter_of_initial_module_is_fitted_by_its_path(made):
    data = final(made(2.0))
    found = fit(final, made(1.5), data, noise=Gaussian(0.1), free="initial.amplitude")
    assert found.names == ("initial.amplitude",)
    np.testing.assert_allclose(found.values, 2.0, rtol=1e-12)
    assert found.model.initial.amplitude == found.values[0]


def test_parameters_of_an_initial_module_are_free_by_default():
    names = fisher(final, heat(2.0), noise=Gaussian(0.1)).names
    assert "initial.amplitude" in names
    assert not any(name.startswith("initial[") for name in names)


def test_initial_module_gives_the_field_of_its_values():
    wave = heat(2.0)
    same = pde.Evolution(pde.Diffusion(0.1), wave.initial_field, wave.grid)
    assert wave.initial_field.shape == (1, 16)
    np.testing.assert_array_equal(same.initial, wave.initial_field)
    np.testing.assert_array_equal(final(wave), final(same))
    lake = pde.Evolution(pde.ShallowWater(), Depth(jnp.asarray(2.0)), pde.Grid(16))
    still = pde.Evolution(pde.ShallowWater(), lake.initial_field, lake.grid)
    energies = [pde.energy(one, one.initial_field) for one in (lake, still)]
    np.testing.assert_array_equal(*energies)


class Depth(eqx.Module):
    """Of water at rest."""

    depth: jax.Array

    def __call__(self, x):
        return jnp.stack([self.depth, 0.0])


def test_flow_starts_from_the_field_of_its_module():
    """Which is in proportion to its amplitude."""

    @jax.jit
    def both(amplitude):
        return jax.jvp(lambda a: flow(a).initial_state(), (amplitude,), (1.0,))

    for start, slope in zip(*both(2.0), strict=True):
        np.testing.assert_allclose(slope, start / 2, atol=1e-15)
    y = flow(2.0).grid.faces(1)[0]
    np.testing.assert_allclose(start, 2 * jnp.sin(2 * jnp.pi * y[:, 1:]), atol=1e-14)


def test_initial_module_keeps_single_precision():
    grid = pde.Grid(16, jnp.float32(0), jnp.float32(1))
    wave = Wave(jnp.float32(1), 1)
    made = pde.Evolution(pde.Diffusion(jnp.float32(0.1)), wave, grid)
    assert final(made).dtype == made.initial_field.dtype == jnp.float32


def test_initial_module_without_parameters_is_its_values():
    class Step(eqx.Module):
        def __call__(self, x):
            return jnp.where(x[0] < 0.5, 1.0, 0.0)

    made = pde.Evolution(pde.Diffusion(0.1), Step(), pde.Grid(16))
    np.testing.assert_array_equal(made.initial, made.initial_field)


def test_initial_function_is_evaluated_at_cell_centers():
    line, plane = pde.Grid(16), pde.Grid((8, 8))
    x, y = plane.centers
    law = pde.Diffusion(0.1)
    made = pde.Evolution(law, lambda x: jnp.sin(x[0]) * x[1], plane)
    np.testing.assert_array_equal(made.initial, (jnp.sin(x) * y)[None])
    pair = pde.Evolution(pde.Wave(1.0), lambda x: jnp.stack([x[0], 0 * x[0]]), line)
    np.testing.assert_array_equal(pair.initial[0], line.centers[0])
    constant = pde.Evolution(law, lambda x: 2.0, line)
    np.testing.assert_array_equal(constant.initial, 2.0)


def test_closure_of_initial_function_is_differentiated():
    def total(a):
        law, grid = pde.Diffusion(0.1), pde.Grid(16)
        return jnp.sum(pde.Evolution(law, lambda x: a * x, grid).initial)

    np.testing.assert_allclose(jax.grad(total)(2.0), 8.0, rtol=1e-6)
