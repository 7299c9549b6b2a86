"""Checks of the arguments of observables."""

from typing import Any

from .._nbody import NBody
from .._state import State, checked_state


def checked_arguments(function: str, simulation: Any, state: Any) -> State:
    """`state`; objects to anything else, and to anything but a system beside it."""
    if not isinstance(simulation, NBody):
        raise ValueError(
            f"simulation must be an nbody.NBody, got a {type(simulation).__name__}; "
            f"write nbody.{function}(system, trajectory.states)"
        )
    return checked_state(state)
