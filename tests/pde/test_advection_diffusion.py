"""Advection with diffusion and reaction: solutions that are made up, at every wall."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde


D = 0.05


def wave(p, t, x):
    """A solution that is made up."""
    return p * (2 + jnp.sin(2 * x + t) + jnp.cos(3 * x - t) / 3)


def flow(p, t, x):
    return p * (1 + 0.3 * jnp.sin(x + t))


def slope(function, x):
    return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


def error(p, kind, scheme, n):
    """At the end, of a flow that moves, with u (1 − u) for the reaction."""

    def rate(t, x):
        u = lambda x: wave(p, t, x)  # noqa: E731
        flux = lambda x: D * slope(u, x) - flow(p, t, x) * u(x)  # noqa: E731
        return slope(flux, x)

    def source(t, x):
        change = slope(lambda t: wave(p, t, x[0]), jnp.asarray(t, x.dtype))
        u = wave(p, t, x[0])
        return change - rate(t, x[0]) - u * (1 - u)

    def given(t, x):
        return wave(p, t, x)

    def outwards(t, x):
        return slope(lambda x: wave(p, t, x), x)

    walls = {
        "Dirichlet": (pde.Dirichlet(given), pde.Dirichlet(given)),
        "Neumann": (pde.Dirichlet(given), pde.Neumann(outwards)),
        "Robin": (
            pde.Dirichlet(given),
            pde.Robin(1.0, 0.3, lambda t, x: given(t, x) + 0.3 * outwards(t, x)),
        ),
    }[kind]
    grid = pde.Grid(n, 0.2, 1.7)
    law = pde.AdvectionDiffusion(
        D,
        lambda t, x: flow(p, t, x),
        reaction=lambda t, x, u: u * (1 - u),
        source=source,
        scheme=scheme,
    )
    x = grid.centers
    line = pde.Evolution(law, wave(p, 0.0, x), grid, (walls,))
    method = ds.Method(integrators.SSPRK3(), step=0.2 / (n * n / 32))
    return ds.simulate(line, 0.2, method).states - wave(p, 0.2, x)


@pytest.mark.parametrize(
    ("scheme", "order"),
    [(pde.MUSCL(), 2), pytest.param(pde.WENO5(), 4, marks=pytest.mark.slow)],
    ids=["MUSCL", "WENO5"],
)
@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_solutions_and_their_derivatives_have_the_order(kind, scheme, order):
    def norms(n):
        both = jax.jit(
            lambda p: jax.jvp(lambda p: error(p, kind, scheme, n), (p,), (1.0,))
        )
        return [np.sqrt(np.mean(np.asarray(e) ** 2)) for e in both(0.8)]

    orders = np.log2(np.divide(norms(32), norms(64)))
    assert np.all(orders > order - 0.25), orders


def test_what_flows_in_goes_through_and_out():
    """u = f(x − vt) behind an inflow that knows it, and out at the other side."""

    def passing(t, x):
        return jnp.exp(-40 * (x - 0.9 * t + 0.3) ** 2)

    def error(n):
        grid = pde.Grid(n)
        ends = ((pde.Inflow(passing), pde.Outflow()),)
        law = pde.AdvectionDiffusion(0.0, 0.9)
        line = pde.Evolution(law, passing(0.0, grid.centers), grid, ends)
        method = ds.Method(integrators.SSPRK3(), step=0.5 / n)
        found = ds.simulate(line, [1.0, 2.0], method).states
        assert jnp.max(jnp.abs(found[1])) < 1e-2
        return np.mean(np.abs(found[0] - passing(1.0, grid.centers)))

    # The ghosts hold what is at the wall: of order one there, and behind it.
    assert np.log2(error(64) / error(128)) > 0.9


def plate(velocity):
    grid = pde.Grid((5, 4), (0.0, 0.1), (1.0, 0.9))
    x, y = grid.centers
    walls = (
        (pde.Inflow(0.3), pde.Outflow()),
        (pde.Dirichlet(0.2), pde.Robin(1.0, 0.4, 0.1)),
    )
    law = pde.AdvectionDiffusion(0.02 + 0.01 * x, velocity(grid), source=0.2 * y)
    return pde.Evolution(law, jnp.sin(3 * x) + y, grid, walls)


def numbers(grid):
    del grid
    return jnp.array([0.7, -0.3])


def cells(grid):
    x, y = grid.centers
    return jnp.stack([0.7 + y, -0.3 * x])


def faces(grid):
    return tuple(0.5 + grid.faces(axis)[1 - axis] for axis in (0, 1))


@pytest.mark.parametrize("velocity", [numbers, cells, faces])
def test_velocities_of_every_kind_run_by_default(velocity):
    found = ds.simulate(plate(velocity), 0.1)
    assert np.all(np.isfinite(found.states))


def test_flows_that_are_none_are_named():
    grid = pde.Grid((5, 4))
    law = pde.AdvectionDiffusion(0.1, jnp.ones(3))
    with pytest.raises(ValueError, match="velocity must be a number"):
        pde.Evolution(law, jnp.zeros((5, 4)), grid)
    with pytest.raises(ValueError, match="diffusivity must not be negative"):
        pde.AdvectionDiffusion(-0.1, 1.0)
