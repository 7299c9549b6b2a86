"""A user's force, called with the public state."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._jaxpr._inspection import depends_on_first
from .._jaxpr._tracing import explain_tracer_errors
from .._validation import array_of, as_floating
from ._bodies import State


def user_acceleration(force: Callable[..., Any], t, x, v):
    """`force(t, state)` as a component-first array; `v` None if it depends on none."""
    state = State(x.T, jnp.full_like(x, jnp.nan).T if v is None else v.T)
    with explain_tracer_errors("force", force):
        acceleration = _call(force, t, state)
    acceleration = as_floating(
        f"the acceleration by {callable_name(force)}", acceleration
    )
    array_of(f"acceleration by {callable_name(force)}", acceleration, (x.shape[1], 3))
    return acceleration.astype(x.dtype).T


def callable_name(force: Callable[..., Any]) -> str:
    """Name of a force, for a sentence."""
    return getattr(force, "__name__", type(force).__name__)


def _call(force: Callable[..., Any], t, state):
    try:
        return force(t, state)
    except AttributeError as error:
        if not _is_a_number(getattr(error, "obj", None)):
            raise
        raise ValueError(
            f"{callable_name(force)} reads .{error.name} of the time: a force takes "
            "the time first, force(t, state)"
        ) from error


def _is_a_number(thing: Any) -> bool:
    """Whether a thing is the time, also where a force was traced with another."""
    return eqx.is_array(thing) and thing.shape == ()


def reads_velocities(force: Callable[..., Any], x: jax.ShapeDtypeStruct) -> bool:
    """Whether the acceleration by `force` is made of velocities."""
    t = jax.ShapeDtypeStruct((), x.dtype)
    return depends_on_first(lambda v, t, x: user_acceleration(force, t, x, v), x, t, x)
