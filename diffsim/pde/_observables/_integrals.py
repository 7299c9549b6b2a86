"""Integrals of fields: mass, energy and enstrophy."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._parameter_selection import cast
from .._domain import Domain, as_field
from .._evolution import Evolution
from .._grid import Grid
from ._velocity import (
    check_state,
    is_flow,
    name_of,
    refuse_trajectory,
    velocity,
    vorticity,
)


@eqx.filter_jit
def integral(u: Array, grid: Grid) -> Array:
    r"""Integral $\int u\,dx$ of every channel, the sum over cells times their volume.

    ```python
    def hot(x):
        return jnp.exp(-50 * (x[0] - 0.5) ** 2)

    rod = pde.Evolution(pde.Diffusion(0.01), hot, pde.Grid(64), pde.Neumann(0.0))
    run = ds.simulate(rod, [0.0, 1.0])
    pde.integral(run.states, rod.grid)  # (time, channel): nothing is lost
    pde.integral(run.states > 0.5, rod.grid)  # the length that is so hot
    ```

    Conservative schemes keep it to machine precision: what leaves a cell enters its
    neighbor.

    **Arguments**

    - `u`: shape (..., *grid), one field or states with their times; or a condition, of
        which this is the volume that it holds in.
    - `grid`: the `Grid`.

    **Raises:** `ValueError` for a field that does not fit the grid.

    **Limits:** of order 2 in Δx at boundaries, exact for periodic fields that the grid
    resolves (mathematics: it is the midpoint rule).
    """
    u = as_field(u)
    Domain(grid).check(u)
    return jnp.sum(u, range(-grid.ndim, 0)) * grid.volume.astype(u.dtype)


@fresh_jit
def energy(simulation: Any, state: Array) -> Array:
    r"""Energy, of a flow the kinetic over the density: $E = \tfrac12\int |u|^2\,dx$.

    ```python
    def plucked(x):
        u = jnp.sin(np.pi * x[0])
        return jnp.stack([u, 0 * u])

    string = pde.Evolution(pde.Wave(1.0), plucked, pde.Grid(64), pde.Dirichlet())
    run = ds.simulate(string, [0.0, 10.0], ds.Method(integrators.Leapfrog(), 0.01))
    pde.energy(string, run.states)  # π²/4, at both times
    ```

    $dE/dt = -2\nu Z$ in a periodic box and between walls at rest, with Z the
    `enstrophy`. Of other equations what stays while nothing drives or damps them:

    - `Wave`: $\tfrac12\int (\partial_t u)^2 + c^2|\nabla u|^2\,dx$, the slopes from
        the last cells to boundary values included, and at `Robin` and `Neumann`
        boundaries what their springs and pulls hold, none where u = 0 there,
    - `Schrodinger`:
        $\int \tfrac{\hbar^2}{2m}|\nabla\psi|^2 + V|\psi|^2 + \tfrac g2|\psi|^4\,dx$,
    - `KortewegDeVries`: $\tfrac12\int u^2\,dx$,
    - `Euler`: the total energy, its last channel,
    - `ShallowWater`: $\tfrac12\int h|v|^2 + g\,h(h + 2b)\,dx$ over the bottom b, over
        the density, which bores lower,
    - your own: the integral of what its method `energy(t, u, domain)` returns.

    **Arguments**

    - `simulation`: an `IncompressibleFlow`, or an `Evolution` of
        `NavierStokesVorticity`, `NavierStokesVelocity` or an equation that has an
        energy.
    - `state`: one state, or states with a leading time axis.

    **Returns:** shape (time,) or (); of a flow length⁴ / time² in two dimensions,
    length⁵ / time² in three.

    **Raises:** `ValueError` for another simulation or states of another shape.

    **Limits:** of an `IncompressibleFlow` that of the velocities in the centers of
    cells, of order 2; what changes with time is taken at `t0` (convenience).
    """
    refuse_trajectory(state)
    density = _density(simulation, state)
    if density is None and is_flow(simulation):
        u = velocity(simulation, state)
        density = jnp.sum(u**2, -simulation.grid.ndim - 1) / 2
    if density is None:
        raise ValueError(
            "simulation must have an energy: an IncompressibleFlow, or an Evolution of "
            "NavierStokesVorticity, NavierStokesVelocity, Wave, Schrodinger, "
            "KortewegDeVries, Euler, ShallowWater or an equation of your own with a "
            f"method energy(t, u, domain); got {name_of(simulation)}; pde.integral "
            "takes any field"
        )
    return integral(density, simulation.grid)


def _density(simulation: Any, state: Array) -> Array | None:
    """Energy density of an equation in every cell, None if it has none."""
    if not isinstance(simulation, Evolution):
        return None
    simulation = cast(simulation, state.dtype)
    t = jnp.asarray(simulation.t0, state.dtype)

    def density(u):
        return simulation.equation.energy(t, u, simulation.domain)

    initial = jax.eval_shape(lambda: simulation.initial_field)
    if eqx.filter_eval_shape(density, initial) is None:
        return None
    check_state(simulation, state, initial.shape)
    for _ in range(state.ndim - initial.ndim):
        density = jax.vmap(density)
    return density(state)


@fresh_jit
def enstrophy(simulation: Any, state: Array) -> Array:
    r"""Enstrophy, $Z = \tfrac12\int |\omega|^2\,dx$ with the `vorticity` ω.

    ```python
    def vortices(x):
        return 2 * jnp.cos(x[0]) * jnp.cos(x[1])

    torus = pde.Grid((32, 32), 0.0, 2 * np.pi)
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), vortices, torus)
    run = ds.simulate(flow, [0.0, 1.0], ds.Method(integrators.ETDRK4(), step=0.1))
    pde.enstrophy(flow, run.states)  # 2π² and 2π² exp(−0.4)
    ```

    **Arguments**

    - `simulation`, `state`: as for `velocity`.

    **Returns:** length² / time² in two dimensions, length³ / time² in three, shape
    (time,) or ().

    **Raises:** `ValueError` for another simulation or states of another shape.

    **Limits:** as `vorticity`.
    """
    # Which objects to what is no flow and may have no grid.
    squares = vorticity(simulation, state) ** 2
    grid = simulation.grid
    if grid.ndim == 3:
        squares = jnp.sum(squares, -4)
    return integral(squares, grid) / 2
