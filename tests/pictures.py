"""Trajectories that nobody has simulated, to be drawn, and figures that show them."""

import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import pde
from diffsim.simulations import FinalState, Trajectory


def trajectory_of(states, axes=None, times=None):
    """A trajectory of given states, by default at the times 0, 1 and so on."""
    states = jax.tree.map(jnp.asarray, states)
    if times is None:
        times = np.arange(float(len(jax.tree.leaves(states)[0])))
    final, stats = FinalState(0.0, states), {"num_accepted_steps": 1}
    successful = ds.RESULTS.successful
    times = np.asarray(times)
    return Trajectory(times, states, successful, stats, final, None, axes=axes)


def fields(
    names=("u",),
    shape=(5, 7),
    times=(0.0, 1.0, 3.0),
    boundary=None,
    solid=None,
    dtype=float,
):
    """Random fields between 0 and 1 on a box with corners (−1, −2, −3), (1, 3, 5)."""
    ndim = len(shape)
    grid = pde.Grid(shape, (-1.0, -2.0, -3.0)[:ndim], (1.0, 3.0, 5.0)[:ndim])
    axes = pde.FieldAxes.of(names, grid, boundary or pde.Domain(grid).boundary, solid)
    shape = (*np.shape(times), len(names), *shape)
    states = np.random.default_rng(0).uniform(size=shape).astype(dtype)
    return trajectory_of(states, axes, times)


def is_drawn(figure):
    """Whether the figure has pixels of more than one color."""
    figure.canvas.draw()
    return np.std(np.asarray(figure.canvas.buffer_rgba())[..., :3]) > 1
