"""The same fields by exponax, whose steppers are made and jitted once."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._peers import peer
from . import problems


exponax = peer("exponax")


def kuramoto_sivashinsky() -> Any:
    """A flame front, after every step of ETDRK4."""
    x = _centers(problems.FLAME_POINTS, problems.FLAME_LENGTH)
    return _flame()(jnp.sin(2 * np.pi * x / problems.FLAME_LENGTH)[None])


def navier_stokes() -> Any:
    """The last vorticity of a flow in a plane; theirs has the other sign."""
    x = _centers(problems.FLOW_POINTS, problems.CIRCLE)
    x, y = jnp.meshgrid(x, x, indexing="ij")
    vorticity = jnp.sin(x) * jnp.cos(2 * y) + jnp.cos(3 * x + y)
    return _flow()(vorticity[None])


def burgers() -> Any:
    """A wave that steepens."""
    x = _centers(problems.SHOCK_POINTS, problems.CIRCLE)
    return _shock()(jnp.sin(x)[None])


def _centers(points, length):
    """Where diffsim has its points, half a cell from where theirs are."""
    return (jnp.arange(points) + 0.5) * (length / points)


@functools.cache
def _flame():
    stepper = exponax.stepper.KuramotoSivashinskyConservative(
        1, problems.FLAME_LENGTH, problems.FLAME_POINTS, problems.FLAME_STEP, order=4
    )
    return jax.jit(exponax.rollout(stepper, problems.FLAME_STEPS))


@functools.cache
def _flow():
    stepper = exponax.stepper.NavierStokesVorticity(
        2,
        problems.CIRCLE,
        problems.FLOW_POINTS,
        problems.FLOW_STEP,
        diffusivity=problems.VISCOSITY,
        order=4,
    )
    run = exponax.repeat(stepper, problems.FLOW_STEPS)
    return jax.jit(lambda vorticity: -run(-vorticity))


@functools.cache
def _shock():
    stepper = exponax.stepper.Burgers(
        1,
        problems.CIRCLE,
        problems.SHOCK_POINTS,
        problems.SHOCK_STEP,
        diffusivity=problems.SHOCK_VISCOSITY,
        order=4,
    )
    return jax.jit(exponax.repeat(stepper, problems.SHOCK_STEPS))
