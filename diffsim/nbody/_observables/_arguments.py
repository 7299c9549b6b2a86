"""Checks of the arguments of observables."""

from typing import Any

import jax.numpy as jnp

from .._nbody import NBody
from .._state import State, checked_state


def checked_arguments(function: str, simulation: Any, state: Any) -> State:
    """`state`; objects to anything else, and to anything but a system beside it."""
    if not isinstance(simulation, NBody):
        raise ValueError(
            f"simulation must be an nbody.NBody, got a {type(simulation).__name__}; "
            f"write nbody.{function}(system, trajectory.states)"
        )
    state = checked_state(state)
    massive, tracers = simulation.bodies.masses.size, simulation.tracers
    light = 0 if tracers is None else len(tracers.positions)
    for name in ("positions", "velocities"):
        shape = jnp.shape(getattr(state, name))
        # States of the bodies alone are as good.
        if len(shape) < 2 or shape[-2] not in (massive, massive + light):
            more = f" and {light} tracers" if light else ""
            raise ValueError(
                f"state must have rows of the {massive} bodies{more} of the system, "
                f"got {name} of shape {shape}; take the states of a run of this system"
            )
    return state
