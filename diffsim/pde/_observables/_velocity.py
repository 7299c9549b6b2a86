"""Velocity and vorticity of flows, whichever of them is the state."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._parameter_selection import cast
from ...simulations import Trajectory
from .._equations import AbstractNavierStokes, NavierStokesVorticity
from .._evolution import Evolution
from .._finite_volume import curl_of
from .._fourier import FourierBasis
from .._incompressible import IncompressibleFlow
from .._stencils import difference


@fresh_jit
def velocity(simulation: Any, state: Array) -> Array:
    r"""Velocity in the centers of cells, shape (..., axis, *grid).

    Of `NavierStokesVorticity` the flow of mean zero with the vorticity of the state,
    $u = (\partial_y\psi, -\partial_x\psi)$ with $\nabla^2\psi = -\omega$. Of
    `NavierStokesVelocity` and of an `IncompressibleFlow` the state itself.

    ```python
    torus = pde.Grid((32, 32), 0.0, 2 * np.pi)
    x, y = torus.centers
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), jnp.cos(x) + jnp.cos(y), torus)
    pde.velocity(flow, flow.initial_field)  # (−sin y, sin x)
    ```

    **Arguments**

    - `simulation`: an `IncompressibleFlow`, or an `Evolution` of
        `NavierStokesVorticity` or `NavierStokesVelocity`.
    - `state`: one state, or states with a leading time axis.

    **Raises:** `ValueError` for another simulation or states of another shape.
    """
    _check(simulation, state)
    if not _is_vorticity(simulation):
        return state
    modes = FourierBasis(cast(simulation.grid, state.dtype))
    stream = -modes.inverse_laplacian(modes.fft(jnp.squeeze(state, -3)))
    slopes = modes.derivative(1) * stream, -modes.derivative(0) * stream
    return modes.ifft(jnp.stack(slopes, -3))


@fresh_jit
def vorticity(simulation: Any, state: Array) -> Array:
    r"""Vorticity $\omega = \nabla\times u$ in the centers of cells.

    ```python
    torus = pde.Grid((32, 32), 0.0, 2 * np.pi)
    x, y = torus.centers
    start = jnp.stack([-jnp.sin(y), jnp.sin(x)])
    flow = pde.Evolution(pde.NavierStokesVelocity(0.1), start, torus)
    pde.vorticity(flow, flow.initial_field)  # cos x + cos y
    ```

    In two dimensions $\partial_x v - \partial_y u$, shape (..., *grid); in three shape
    (..., axis, *grid). Exact in Fourier space; of an `IncompressibleFlow` by
    differences of order 2, beside its boundary from the cells inside.

    **Arguments**

    - `simulation`, `state`: as for `velocity`.

    **Raises:** `ValueError` for another simulation or states of another shape.

    **Limits:** what a layer thinner than two cells does at a boundary is not in it
    (convenience: boundary values are not used, so that it needs no time).
    """
    _check(simulation, state)
    if _is_vorticity(simulation):
        return jnp.squeeze(state, -3)
    if isinstance(simulation, IncompressibleFlow):
        return curl_of(_slopes(simulation, state))
    modes = FourierBasis(cast(simulation.grid, state.dtype))
    z = modes.fft(state)
    slopes = [modes.derivative(axis) * z for axis in range(modes.grid.ndim)]
    return modes.ifft(curl_of(slopes))


def _slopes(flow: IncompressibleFlow, u: Array) -> list[Array]:
    """∂u along each axis, by parabolas through the last three cells at a boundary."""
    ndim = flow.grid.ndim
    views = flow.domain.with_extrapolated_boundaries.face_neighbors(u, order=3)
    spacing = flow.grid.spacing.astype(u.dtype)
    return [
        difference((low + high) / (2 * dx), i - ndim)
        for i, ((low, high), dx) in enumerate(zip(views, spacing, strict=True))
    ]


def _is_vorticity(simulation: Any) -> bool:
    return isinstance(getattr(simulation, "equation", None), NavierStokesVorticity)


def is_flow(simulation: Any) -> bool:
    """Whether its states are velocities or vorticities."""
    equation = getattr(simulation, "equation", None)
    return isinstance(simulation, IncompressibleFlow) or isinstance(
        equation, AbstractNavierStokes
    )


def _check(simulation: Any, state: Array):
    """Raise `ValueError` unless this is a flow and these are states of it."""
    if not is_flow(simulation):
        raise ValueError(
            "simulation must be an IncompressibleFlow or an Evolution of "
            "NavierStokesVorticity or NavierStokesVelocity, whose states are flows, "
            f"got {name_of(simulation)}; pde.integral and pde.curl take any field"
        )
    shape = simulation.grid.shape
    channels = 1 if _is_vorticity(simulation) else len(shape)
    check_state(simulation, state, (channels, *shape))


def check_state(simulation: Any, state: Array, shape: tuple[int, ...]):
    refuse_trajectory(state)
    if jnp.shape(state)[-len(shape) :] != shape:
        raise ValueError(
            f"state must have shape (..., {', '.join(map(str, shape))}), as those of "
            f"this {name_of(simulation)}, got {state.shape}"
        )


def refuse_trajectory(state: Any):
    """Raise `ValueError` for a trajectory in place of its states."""
    if isinstance(state, Trajectory):
        raise ValueError(
            "state must be an array, got a Trajectory; its states are trajectory.states"
        )


def name_of(simulation: Any) -> str:
    name = "an array" if eqx.is_array(simulation) else type(simulation).__name__
    if not isinstance(simulation, Evolution):
        return name
    return f"{name} of {type(simulation.equation).__name__}"
