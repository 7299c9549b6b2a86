"""Change of variables between parameters with bounds and any real numbers."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, sigmoid
from jaxtyping import Array, Bool, Float

from .._jaxpr._tracing import explain_tracer_errors
from .._validation import is_traced
from ._free import Transform
from ._parameters import Parameters, Turns
from ._posterior import Posterior


class UnconstrainedCoordinates(eqx.Module):
    r"""The map from unconstrained numbers u to physical values x.

    With y = forward(x) by the transform of a parameter, or x where it has none, and the
    bounds of y, y is

    - lower + (upper − lower)/(1 + e⁻ᵘ) between two bounds,
    - lower + eᵘ above one, upper − eᵘ below one,
    - scale · u without bounds, and on a circle, of which x is given in one turn.
    """

    lower: Float[Array, " parameter"]
    upper: Float[Array, " parameter"]
    scale: Float[Array, " parameter"]
    turns: Turns
    transforms: tuple[Transform, ...]
    spans: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, parameters: Parameters) -> "UnconstrainedCoordinates":
        """Those of the free parameters of a model."""
        found = parameters.coordinates
        moved = np.zeros(len(parameters.names), bool)
        for begin, end in found.spans:
            moved[begin:end] = True
        # Not scaled to and fro, which would round bounds that are known exactly.
        lower = jnp.where(moved, parameters.z_lower * found.scale, parameters.lower)
        upper = jnp.where(moved, parameters.z_upper * found.scale, parameters.upper)
        at = np.asarray(found.turns.entries, int)
        lower, upper = lower.at[at].set(-jnp.inf), upper.at[at].set(jnp.inf)
        return cls(
            lower, upper, found.scale, found.turns, found.transforms, found.spans
        )

    @property
    def _is_bounded(self) -> tuple[Bool[Array, " parameter"], ...]:
        """Whether there is a lower bound, and an upper one."""
        return jnp.isfinite(self.lower), jnp.isfinite(self.upper)

    def values(self, u: Array) -> Array:
        """Physical values of `u`."""
        return self.values_and_log_slope(u)[0]

    def values_and_log_slope(self, u: Array) -> tuple[Array, Array]:
        """Physical values of `u`, and ln |dx/du| summed over them."""
        y, log_slope = self._bounded(u)
        x, total = y, jnp.sum(log_slope)
        for (begin, end), transform in zip(self.spans, self.transforms, strict=True):
            with explain_tracer_errors("transform", transform.inverse):
                part = y[begin:end]
                ones = jnp.ones_like(part)
                part, slope = jax.jvp(transform.inverse, (part,), (ones,))
            x = x.at[begin:end].set(part)
            total = total + jnp.sum(jnp.log(jnp.abs(slope)))
        return self.turns.wrap(x), total

    def _bounded(self, u: Array) -> tuple[Array, Array]:
        """Values y within the bounds, and ln |dy/du|."""
        below, above = self._is_bounded
        both, one = below & above, below ^ above
        # The branch not taken stays finite: its gradient would be 0 · ∞.
        lower, upper = jnp.where(below, self.lower, 0), jnp.where(above, self.upper, 0)
        width = jnp.where(both, upper - lower, 1)
        # From the nearer end, which is met exactly and never passed.
        share = width * sigmoid(-jnp.abs(u))
        between = jnp.where(u > 0, upper - share, lower + share)
        beyond = jnp.exp(jnp.where(one, u, 0))
        beyond = jnp.where(below, lower + beyond, upper - beyond)
        y = jnp.where(both, between, jnp.where(one, beyond, self.scale * u))
        logistic = jnp.log(width) + log_sigmoid(u) + log_sigmoid(-u)
        return y, jnp.where(both, logistic, jnp.where(one, u, jnp.log(self.scale)))

    def coordinates(self, values: Array) -> Array:
        """The `u` of physical values; infinite at a bound, NaN beyond."""
        y = values
        for (begin, end), transform in zip(self.spans, self.transforms, strict=True):
            with explain_tracer_errors("transform", transform.forward):
                y = y.at[begin:end].set(transform.forward(y[begin:end]))
        below, above = self._is_bounded
        lower = jnp.log(jnp.where(below, y - self.lower, 1))
        upper = jnp.log(jnp.where(above, self.upper - y, 1))
        logarithms = jnp.where(below, lower - upper, upper)
        return jnp.where(below | above, logarithms, y / self.scale)


def without_bounds(experiment: Posterior) -> Posterior:
    """The experiment in unconstrained coordinates, for solvers that keep no bounds."""
    parameters = experiment.parameters
    variables = UnconstrainedCoordinates.of(parameters)
    start = coordinates_inside(variables, parameters.names, parameters.start, "model")
    far = jnp.full_like(start, jnp.inf)
    free = dataclasses.replace(
        parameters,
        coordinates=variables,
        z_start=start,
        z_lower=-far,
        z_upper=far,
        has_bounds=False,
    )
    return dataclasses.replace(experiment, parameters=free)


def coordinates_inside(
    variables: UnconstrainedCoordinates, names: tuple[str, ...], values: Any, what: str
) -> Array:
    """The `u` of `values`; raises `ValueError` for known ones that have none."""
    u = variables.coordinates(values)
    if is_traced(u):
        return u
    bad = np.flatnonzero(~np.isfinite(u))
    if bad.size:
        name, value = names[bad[0]], float(values[bad[0]])
        raise ValueError(
            f"{what}: {name} is {value:g}, at or beyond one of its bounds or of those "
            "of its transform, where the unconstrained coordinate is not finite; move "
            "it inside"
        )
    return u
