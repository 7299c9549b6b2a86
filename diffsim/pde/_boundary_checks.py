"""Checks of the values that boundaries hold at their walls."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._validation import compile_time_eval, is_traced
from ._boundaries import AbstractGhostCellBoundary, Dirichlet, Inflow
from ._domain import Domain
from ._equations import (
    AbstractConservationLaw,
    AbstractEquation,
    AbstractSecondOrderInTime,
)


def check_walls(domain: Domain, equation: AbstractEquation, dtype: Any, t0: Any):
    """Raise `ValueError` for values that do not fit their wall, or cannot be there."""
    channels = equation.channels(domain.grid.ndim)
    if isinstance(equation, AbstractSecondOrderInTime):
        channels = channels // 2
    for axis in range(domain.grid.ndim):
        for end, side in enumerate(domain.walls(axis) or ()):
            name = f"the value at the {('lower', 'upper')[end]} side of axis {axis}"
            wall = domain.grid.wall(axis, end).astype(dtype)
            t = jnp.asarray(t0, dtype)
            given = jax.eval_shape(side.at, t, wall).shape
            fits = channels, *wall.shape[1:]
            pairs = zip(reversed(given), reversed(fits), strict=False)
            if len(given) > len(fits) or any(a not in (1, n) for a, n in pairs):
                raise ValueError(
                    f"{name} must be a number, one for each of {channels} channels, or "
                    f"have shape {fits}, got shape {given}; profiles along a wall are "
                    "functions of (t, x) or arrays of that shape"
                )
            value = _known(side, t, wall)
            if value is not None:
                _check_value(name, value, t0)
                holds = isinstance(side, Dirichlet | Inflow)
                if holds and isinstance(equation, AbstractConservationLaw):
                    _check_positive(name, np.broadcast_to(value, fits), equation)


def _known(side: AbstractGhostCellBoundary, t: Array, x: Array) -> np.ndarray | None:
    """Value held at a wall at the time t, if that is known."""
    # While a function is traced, one of a user's would be worked out in it.
    if any(map(is_traced, (t, x, jnp.zeros(()), *jax.tree.leaves(side)))):
        return None
    value = side.at(t, x)
    return None if is_traced(value) else np.asarray(value)


def _check_value(name: str, value: np.ndarray, t0: Any):
    if not np.all(np.isfinite(value)):
        raise ValueError(
            f"{name} must be finite, got values that are infinite or not a number at "
            f"t = {t0}"
        )


def _check_positive(name: str, w: np.ndarray, law: AbstractConservationLaw):
    with compile_time_eval():
        found = law.positive_primitive(tuple(jnp.asarray(w)))
    for field, values in zip(law.positive_fields, found, strict=False):
        smallest = np.min(np.asarray(values))
        if not smallest > 0:
            raise ValueError(
                f"{name} must have a positive {field}, got {smallest}; boundaries of "
                f"{type(law).__name__} are for its primitive fields, one number a "
                "channel, pde.Inflow((density, velocity, pressure)) for a gas on a line"
            )
