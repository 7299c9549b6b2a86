"""Elliptic problems on a small plate, for every test of their solvers."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest

from diffsim import pde


class EllipticProblems:
    """Boundaries by name, a plate between them, coefficients that vary, and data."""

    boundaries: ClassVar = {
        "periodic": pde.Periodic(),
        "DD": (pde.Dirichlet(0.3), pde.Dirichlet(-0.2)),
        "DN": (pde.Dirichlet(0.3), pde.Neumann(0.2)),
        "ND": (pde.Neumann(0.2), pde.Dirichlet(0.3)),
        "NN": (pde.Neumann(0.2), pde.Neumann(-0.1)),
        "OI": (pde.Outflow(), pde.Inflow(0.4)),
        "RD": (pde.Robin(1.0, 0.4, 0.1), pde.Dirichlet(0.3)),
        "NR": (pde.Neumann(0.2), pde.Robin(2.0, 0.1, -0.3)),
        "RR": (pde.Robin(1.0, 0.4, 0.1), pde.Robin(3.0, 0.2, 0.5)),
    }

    class Cubic(pde.AbstractGhostCellBoundary):
        """Zero at the wall, on the parabola through three cells: not symmetric."""

        def ghosts(self, spacing, width, order):
            return pde.Dirichlet().ghosts(spacing, width, order + 2)

        def at(self, t, x):
            return jnp.zeros((), x.dtype)

    @staticmethod
    def plate(first, second, shape=(8, 6)):
        grid = pde.Grid(shape, (0.0, 0.2), (1.0, 1.4))
        return pde.Domain(grid, (first, second))

    @staticmethod
    def coefficients(grid):
        """k and α that vary."""
        x = grid.centers
        return jnp.exp(jnp.sin(3 * x[0]) + x[-1] ** 2), 0.5 + x[0] * (1 + x[-1])

    @staticmethod
    def balance(f, domain, k=1.0):
        """f with what passes the boundary taken out of its mean."""
        passing = pde.diffusion(jnp.zeros(domain.grid.shape), k, domain)
        return f - jnp.mean(f + passing)

    @staticmethod
    def source(shape, seed=0):
        return jax.random.normal(jax.random.key(seed), shape)


@pytest.fixture(scope="session")
def elliptic():
    return EllipticProblems()
