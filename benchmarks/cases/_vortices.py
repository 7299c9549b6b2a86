"""Periodic flow in a plane and in space, ours and exponax's, of either precision."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diffsim import integrators, pde, simulations

from .._peers import peer


SOLVERS = {2: integrators.ETDRK2(), 4: integrators.ETDRK4()}
VISCOSITY, STEP = 1e-3, 1e-3
_LENGTH = 2 * np.pi


def flow(u: Any, viscosity: Any, steps: int, *, order: int, adjoint: Any = None) -> Any:
    """The vorticity (1, x, y) or velocity (3, x, y, z) after so many steps."""
    ends = (np.asarray(a, u.dtype) for a in (0.0, _LENGTH))
    plane = u.ndim == 3
    kind = pde.NavierStokesVorticity if plane else pde.NavierStokesVelocity
    run = pde.Evolution(kind(viscosity), u, pde.Grid(u.shape[1:], *ends))
    method = simulations.Method(SOLVERS[order], STEP, adjoint=adjoint)
    return simulations.simulate(run, steps * STEP, method).states


def repeated(stepper: Callable[..., Any], steps: int) -> Callable[..., Any]:
    """One step of a peer after another."""

    def run(u):
        return jax.lax.scan(lambda u, _: (stepper(u), None), u, length=steps)[0]

    return run


def within_modes(stepper: Callable[..., Any], steps: int) -> Callable[..., Any]:
    """Steps of exponax without a transform between them."""
    run = peer("exponax").RepeatedStepper(stepper, steps)
    return lambda u: run(u)


def peer_flow(
    u: Any, steps: int, *, order: int, chain: Any = repeated
) -> Callable[[Any], Any]:
    """exponax's run for fields like `u`, of steps chained in one of these ways."""
    steppers = peer("exponax").stepper
    plane = u.ndim == 3
    kind = steppers.NavierStokesVorticity if plane else steppers.NavierStokesVelocity
    made = kind(
        u.ndim - 1, _LENGTH, u.shape[-1], STEP, diffusivity=VISCOSITY, order=order
    )
    run = chain(jax.tree.map(lambda a: _like(a, u.dtype), made), steps)
    # Their vorticity has the other sign.
    return (lambda u: -run(-u)) if plane else run


def vorticity(n: int, dtype: Any = np.float64) -> Any:
    """Of a few dozen long waves, seeded."""
    x, y = pde.Grid((n, n), 0.0, _LENGTH).centers
    rng = np.random.default_rng(0)
    waves = [
        rng.normal() * jnp.cos(a * x + b * y + rng.uniform(0, 2 * np.pi))
        for a in range(-4, 5)
        for b in range(1, 5)
    ]
    field = sum(waves[1:], start=waves[0])
    return (5 * field[None] / jnp.max(jnp.abs(field))).astype(dtype)


def velocity(n: int, dtype: Any = np.float64) -> Any:
    """Taylor and Green's vortex."""
    x, y, z = pde.Grid((n, n, n), 0.0, _LENGTH).centers
    u = jnp.sin(x) * jnp.cos(y) * jnp.cos(z)
    v = -jnp.cos(x) * jnp.sin(y) * jnp.cos(z)
    return jnp.stack([u, v, 0 * u]).astype(dtype)


def _like(leaf: Any, dtype: Any) -> Any:
    """A number of a stepper in the precision of the fields."""
    if not eqx.is_inexact_array(leaf):
        return leaf
    is_complex = jnp.isdtype(leaf.dtype, "complex floating")
    return leaf.astype(jnp.result_type(dtype, 1j) if is_complex else dtype)
