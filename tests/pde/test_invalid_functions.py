"""Functions and coefficients of wrong type or shape raise."""

import jax.numpy as jnp
import pytest

import diffsim as ds
from diffsim import integrators, pde


_LINE, _PLANE = pde.Grid(16), pde.Grid((8, 8))
_WIDE = jnp.ones(17)  # of another grid
_EULER = ds.Method(integrators.SSPRK3(), 0.001)


def evolve(equation, boundary=None, *, grid=_LINE, channels=1):
    initial = jnp.ones((channels, *grid.shape))
    evolution = pde.Evolution(equation, initial, grid, boundary)
    method = None if isinstance(equation, pde.Wave | pde.Schrodinger) else _EULER
    return ds.simulate(evolution, 0.002, method)


def flow(**options):
    walls = (pde.Inflow(options.pop("enters", 1.0)), pde.Outflow()), pde.NoSlip()
    return ds.simulate(pde.IncompressibleFlow(0.1, _PLANE, walls, **options), 0.1)


class OneSide(pde.AbstractReconstruction):
    order, width, limited = 1, 1, False

    def reconstruct(self, views):
        return views[0]


class Shifted(OneSide):
    def reconstruct(self, views):
        return views[0][..., 1:], views[1]


class Mute(OneSide):
    def reconstruct(self, views):
        return None


@pytest.mark.parametrize("found", [None, "hot", 1j], ids=["None", "text", "complex"])
@pytest.mark.parametrize(
    ("name", "run"),
    [
        (
            "the diffusivity of a channel",
            lambda f: evolve(pde.Diffusion(lambda t, x, u: f)),
        ),
        ("source", lambda f: evolve(pde.Burgers(source=lambda *_: f))),
        ("potential", lambda f: evolve(pde.Schrodinger(lambda t, x: f), channels=2)),
        ("speed", lambda f: evolve(pde.Wave(lambda x: f), channels=2)),
        (
            "value of a boundary",
            lambda f: evolve(pde.Diffusion(1.0), pde.Dirichlet(lambda t, x: f)),
        ),
        ("velocity of Inflow at axis 0", lambda f: flow(enters=lambda t, x: f)),
        ("forcing", lambda f: flow(forcing=lambda t, x: f)),
    ],
)
def test_functions_that_return_no_real_numbers_raise(name, run, found):
    with pytest.raises(ValueError, match=f"{name} must return real"):
        run(found)


@pytest.mark.parametrize(
    ("equation", "channels"),
    [
        pytest.param(pde.AdvectionDiffusion(_WIDE, 1.0), 1, id="diffusivity"),
        pytest.param(pde.Burgers(_WIDE), 1, id="viscosity"),
        pytest.param(pde.FisherKPP(0.1, _WIDE), 1, id="growth_rate"),
        pytest.param(pde.FisherKPP(0.1, 1.0, _WIDE), 1, id="carrying_capacity"),
        pytest.param(pde.AllenCahn(0.1, _WIDE), 1, id="reaction_rate"),
        pytest.param(pde.GrayScott(_WIDE, 0.1), 2, id="feed"),
        pytest.param(pde.GrayScott(0.1, _WIDE), 2, id="kill"),
        pytest.param(pde.Schrodinger(_WIDE), 2, id="potential"),
        pytest.param(pde.ShallowWater(9.8, _WIDE), 2, id="bottom"),
        pytest.param(pde.Wave(_WIDE), 2, id="speed"),
        pytest.param(pde.Wave(1.0, _WIDE), 2, id="damping"),
    ],
)
def test_coefficient_of_another_grid_raises(equation, channels, request):
    name = request.node.callspec.id
    with pytest.raises(ValueError, match=rf"{name} must be .* axes, \(16,\), got"):
        evolve(equation, channels=channels)


def test_velocity_of_another_grid_raises():
    law = pde.AdvectionDiffusion(0.1, lambda t, x: _WIDE)
    with pytest.raises(ValueError, match=r"velocity must be .* got shape \(17,\)"):
        ds.simulate(pde.Evolution(law, jnp.ones(16), _LINE), 0.1)


@pytest.mark.parametrize("scheme", [OneSide(), Shifted(), Mute()])
def test_reconstructions_of_wrong_shape_raise(scheme):
    for equation in (
        pde.AdvectionDiffusion(None, 1.0, scheme=scheme),
        pde.Burgers(scheme=scheme),
    ):
        with pytest.raises(
            ValueError, match="reconstruct must return two arrays, left and"
        ):
            evolve(equation)


@pytest.mark.parametrize("grid", [_LINE, _PLANE])
def test_potential_with_extra_axis_raises(grid):
    with pytest.raises(ValueError, match="potential must be a number or of the shape"):
        evolve(pde.Schrodinger(lambda t, x: x**2), grid=grid, channels=2)


class Flat(pde.AbstractReactionDiffusion):
    """Its reaction has lost the axis of channels."""

    nonlinearity_degree = 1
    diffusivities = (0.1, 0.2)

    def reaction(self, t, x, u):
        return u[0]


@pytest.mark.parametrize("space", [pde.FiniteVolume(), pde.Fourier()])
def test_reaction_without_channels_raises(space):
    evolution = pde.Evolution(Flat(), jnp.ones((2, 16)), _LINE, discretization=space)
    with pytest.raises(ValueError, match=r"reaction of Flat must .* \(2, 16\), one"):
        ds.simulate(evolution, 0.1)


@pytest.mark.parametrize("t0", ["now", None, jnp.zeros(2)])
def test_epoch_that_is_no_number_raises(t0):
    with pytest.raises((ValueError, TypeError), match="t0"):
        pde.Evolution(pde.Diffusion(1.0), jnp.ones(16), _LINE, t0=t0)


def test_invalid_observe_raises():
    heat = pde.Evolution(pde.Diffusion(1.0), jnp.ones(16), _LINE)
    with pytest.raises(ValueError, match=r"observe must take \(t, y\), got a function"):
        ds.simulate(heat, 0.1, observe=lambda y: y)
