"""Saddles: where a loss has no slope, as in a jitter of 0, and falls all the same."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._validation import is_traced
from ._fit_options import FitOptions
from ._levenberg_marquardt import LevenbergMarquardt
from ._posterior import Posterior


def looks_for_saddles(found: Posterior, solver: Any, options: FitOptions) -> bool:
    """Whether noise has parameters, and derivatives are taken forward anyway."""
    is_ours = isinstance(solver, LevenbergMarquardt)
    forward = solver.mode != "reverse" if is_ours else options.covariance
    return found.varies and forward


def off_saddle(experiment: Posterior, z: Array) -> tuple[Array, Array]:
    """`z` moved off where the loss falls without a slope, and where it rises so.

    A jitter of 0 has no slope: what the data say of it, the second derivative tells.
    The move is one standard deviation of that curvature.
    """

    def along(direction: Array) -> tuple[Array, Array]:
        def slope(z: Array) -> Array:
            return jax.jvp(experiment.loss, (z,), (direction,))[1]

        return jax.jvp(slope, (z,), (direction,))

    every = jnp.eye(z.size, dtype=z.dtype)
    slope, curvature = jax.lax.map(along, every, batch_size=128)
    flat = slope == 0
    falls = flat & (curvature < 0)
    step = jnp.where(falls, 1 / jnp.sqrt(jnp.where(falls, -curvature, 1)), 0)
    lower, upper = experiment.parameters.limits().values()
    moved = jnp.clip(jnp.where(z < upper, z + step, z - step), lower, upper)
    return moved, flat & (curvature > 0)


def leave_saddle(found: Posterior, z: Array) -> tuple[Array, Array]:
    """`off_saddle` where a value is 0, as nowhere else a slope vanishes exactly."""
    if is_traced(z) or jnp.all(_values(found, z)):
        return z, jnp.zeros(z.shape, bool)
    return _off_saddle(found, z)


@fresh_jit
def starting_at(found: Posterior, z: Array) -> Posterior:
    """The same fit from another start."""
    start = found.parameters.values(z)
    return eqx.tree_at(
        lambda e: (e.parameters.start, e.parameters.z_start), found, (start, z)
    )


@fresh_jit
def _values(found: Posterior, z: Array) -> Array:
    return found.parameters.values(z)


_off_saddle = fresh_jit(off_saddle)
