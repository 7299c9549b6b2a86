"""Rates of conservation laws: their derivatives by everything that they hold."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


pytestmark = pytest.mark.optimized


def gas(scheme, riemann_solver):
    grid = pde.Grid((7, 6), 0.1, (1.2, 0.9))
    law, (x, y) = (
        pde.Euler(1.4, scheme=scheme, riemann_solver=riemann_solver),
        grid.centers,
    )
    v = jnp.stack([jnp.cos(4 * y + x), jnp.sin(5 * x + y)])
    start = law.state(1 + 0.3 * jnp.sin(6 * x + y), v, 1 + x * y)
    walls = (
        (pde.Inflow(jnp.array([1.1, 0.9, 0.2, 1.2])), pde.Outflow()),
        pde.ReflectingWall(),
    )
    return pde.Evolution(law, start, grid, walls)


def water(scheme, riemann_solver):
    grid = pde.Grid((7, 6), 0.1, (1.2, 0.9))
    x, y = grid.centers
    law = pde.ShallowWater(
        9.81, 0.2 * x * y, scheme=scheme, riemann_solver=riemann_solver
    )
    start = jnp.stack([1 + 0.3 * jnp.sin(6 * x + y), jnp.cos(4 * y - x), x * y**2])
    return pde.Evolution(law, start, grid, (pde.ReflectingWall(), pde.Periodic()))


def wave(scheme, riemann_solver):
    grid = pde.Grid((7, 6), 0.1, (1.2, 0.9))
    law = pde.Burgers(0.1, scheme=scheme, riemann_solver=riemann_solver)
    start = jnp.sin(7 * grid.centers[0]) + grid.centers[1]
    return pde.Evolution(law, start, grid, (pde.Dirichlet(0.3), pde.ReflectingWall()))


def flow(scheme, velocity):
    """Of an equation with diffusion, its velocity in cells or on faces."""
    grid = pde.Grid((7, 6), 0.1, (1.2, 0.9))
    (x, y), faces = grid.centers, [grid.faces(axis) for axis in (0, 1)]
    velocity = {
        "cells": jnp.stack([0.7 + y * x, -0.3 * x]),
        "faces": tuple(0.5 + jnp.sin(face[0] + face[1]) for face in faces),
    }[velocity]
    law = pde.AdvectionDiffusion(
        0.02 + 0.01 * x, velocity, source=lambda t, x, u: u**2, scheme=scheme
    )
    walls = ((pde.Inflow(0.3), pde.Outflow()), pde.Robin(1.0, 0.4, 0.1))
    return pde.Evolution(law, jnp.sin(7 * x) * y + y**2, grid, walls)


@pytest.mark.parametrize(
    ("kind", "scheme", "riemann_solver"),
    first_plain(
        [
            (wave, pde.MUSCL(), pde.Rusanov()),
            (flow, pde.MUSCL(), "cells"),
            (flow, pde.MUSCL(), "faces"),
            (gas, pde.MUSCL(), pde.HLLC()),
            (gas, pde.WENO5(), pde.HLL()),
            (water, pde.MUSCL(), pde.HLL()),
            (water, pde.WENO5(), pde.Rusanov()),
            (wave, pde.WENO5(), pde.Rusanov()),
        ]
    ),
)
def test_derivatives_of_rates_are_correct_in_both_modes(kind, scheme, riemann_solver):
    """By fields, coefficients, values at walls and corners, beside differences.

    Of fields that vary along every axis: at constants, limiters have a kink as soon as
    a change is larger than rounding.
    """
    numbers, rest = eqx.partition(kind(scheme, riemann_solver), eqx.is_inexact_array)
    keys = iter(jax.random.split(jax.random.key(0), 50))
    step = jax.tree.map(lambda a: jax.random.normal(next(keys), a.shape), numbers)
    step = jax.tree.map(lambda d, a: 0.1 * d * (1 + jnp.abs(a)), step, numbers)

    @jax.jit
    def rate(numbers):
        case = eqx.combine(numbers, rest)
        return case.equation.rate(0.0, case.initial, case.domain)

    def moved(h):
        return rate(jax.tree.map(lambda a, d: a + h * d, numbers, step))

    weights = jax.random.normal(next(keys), numbers.initial.shape)

    @jax.jit
    def derivatives(numbers):
        forward = jax.jvp(rate, (numbers,), (step,))[1]
        return forward, jax.vjp(rate, numbers)[1](weights)[0]

    forward, bars = derivatives(numbers)
    differences = (moved(2e-6) - moved(-2e-6)) / 4e-6
    size = np.max(np.abs(forward))
    # WENO's weights turn within 1e-3 of a field that is nearly straight.
    np.testing.assert_allclose(forward, differences, atol=1e-6 * size)
    every = zip(jax.tree.leaves(bars), jax.tree.leaves(step), strict=True)
    assert all(np.any(bar != 0) for bar in jax.tree.leaves(bars)), (
        "a number has no gradient"
    )
    np.testing.assert_allclose(
        sum(jnp.sum(bar * d) for bar, d in every),
        jnp.sum(weights * forward),
        rtol=1e-10,
        atol=1e-10 * size,
    )


class Traffic(pde.AbstractConservationLaw):
    """Cars of density u drive at v (1 − u): a law of one's own."""

    v: jax.Array
    scheme: pde.AbstractReconstruction
    riemann_solver: pde.AbstractRiemannSolver

    def channels(self, ndim):
        return 1

    def primitive(self, u):
        return u

    def conserved(self, w):
        return w

    def flux(self, w, axis):
        return (self.v * w[0] * (1 - w[0]),)

    def wave_speeds(self, w, axis):
        speed = self.v * (1 - 2 * w[0])
        return speed, speed

    def odd_channels(self, axis):
        return ()

    def rate(self, t, u, domain):
        return pde.flux_divergence(self, u, domain, t)

    def courant_rate(self, t, u, domain):
        return (
            jnp.max(jnp.abs(self.wave_speeds(tuple(u), 0)[0])) / domain.grid.spacing[0]
        )

    def default_method(self, domain):
        return ds.Method(integrators.SSPRK3(), controller=pde.CFL())


def test_custom_conservation_law_has_the_order_of_its_scheme():
    def density(x):
        return 0.4 + 0.2 * jnp.sin(2 * jnp.pi * x)

    def error(n):
        domain = pde.Domain(pde.Grid(n))
        law = Traffic(jnp.asarray(1.3), pde.WENO5(), pde.HLL())
        (x,) = domain.grid.centers
        found = law.rate(0.0, density(x)[None], domain)[0]
        flux = lambda x: 1.3 * density(x) * (1 - density(x))  # noqa: E731
        return np.mean(np.abs(found + jax.vmap(jax.grad(flux))(x)))

    assert np.log2(error(64) / error(128)) > 4.8
