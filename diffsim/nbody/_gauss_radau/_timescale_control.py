"""Step-size control by the timescale of the motion."""

from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array


#: A step is taken again if the next would be shorter than this part of it, and no next
#: one is longer than its inverse.
_LEAST = 0.25

#: A step that did not converge is shortened to this part, less than any that is kept.
_SHORTER = 0.2

#: The first step is this part of the time in which the system would be crossed, a
#: guess: it is taken again until it is what the motion asks for.
_FIRST, _LEAST_OF_FIRST = 0.01, 0.8


class TimescaleControl(diffrax.AbstractStepSizeController[Any, Any]):
    r"""Steps in proportion to the timescale of the motion, as the solver finds it.

    $h = (5040\,\epsilon)^{1/7}\,\tau$. The `y_error` of a solver that this goes with
    is two numbers: the inverse of τ in units of the step, and 1 where the step did not
    converge.
    """

    epsilon: float

    #: A solver's steps are all that there is to control: the loop may be short.
    never_jumps: ClassVar[bool] = True
    #: A run whose steps shrink to nothing is to end.
    has_shortest_step: ClassVar[bool] = True

    def wrap(self, direction: Array) -> "TimescaleControl":
        del direction
        return self

    def scaled(self, factor: float) -> "TimescaleControl":
        """Itself, with steps that are longer by a factor."""
        return TimescaleControl(self.epsilon * factor**7)

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        del func, error_order
        if dt0 is None:
            x, v = y0
            a = terms.vf(t0, y0, args)[1]
            whole = jnp.asarray(t1 - t0)
            dt0 = jnp.minimum(_first_length(x, v, a, whole), whole)
        # Held, as all that steps are chosen by.
        return t0 + jax.lax.stop_gradient(dt0), jnp.asarray(True)

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        del y0, y1_candidate, args, error_order
        # Held, as all that steps are chosen by.
        inverse, lost = jax.lax.stop_gradient(jax.tree.leaves(y_error))
        ratio = relative_step(self.epsilon) / inverse
        ratio = jnp.where(lost > 0, jnp.minimum(ratio, _SHORTER), ratio)
        keep = ratio >= jnp.where(controller_state, _LEAST_OF_FIRST, _LEAST)
        start, is_first = jnp.where(keep, t1, t0), controller_state & ~keep
        # The ratio of a step that is no number is zero.
        factor = jnp.clip(ratio, _LEAST**2, 1 / _LEAST)
        end = start + factor * (t1 - t0)
        successful = diffrax.RESULTS.successful
        return keep, start, end, jnp.asarray(False), is_first, successful


def relative_step(epsilon: float) -> float:
    """The step in units of the timescale."""
    return (5040 * epsilon) ** (1 / 7)


def _first_length(x: Array, v: Array, a: Array, otherwise: Array) -> Array:
    """A step to begin with: a guess, by the size of the system."""
    length, speed, pull = (jnp.max(jnp.abs(_about_mean(y))) for y in (x, v, a))
    length = jnp.where(length > 0, length, jnp.max(jnp.abs(x)))
    times = jnp.stack([length / speed, jnp.sqrt(length / pull)])
    usable = (times > 0) & jnp.isfinite(times)
    shortest = jnp.min(jnp.where(usable, times, jnp.inf))
    return jnp.where(jnp.isfinite(shortest), _FIRST * shortest, otherwise)


def _about_mean(y: Array) -> Array:
    """Vectors from the mean of all, where there are several."""
    return y - jnp.mean(y, axis=-1, keepdims=True) if y.ndim > 1 else y


def timescale(a: Array, jerk: Array, snap: Array, crackle: Array) -> Array:
    r"""$\min_i \sqrt{2 a^2 / (\dot a^2 + |a| |\ddot a|)}$ over the bodies i.

    Vectors along the first axis. Infinite where nothing accelerates. Where the
    acceleration of a body goes through zero it is that of its derivative, halved.
    """
    a2, j2, s2, c2 = map(_square, (a, jerk, snap, crackle))
    scale2 = jnp.maximum(_ratio(a2, j2, s2), _ratio(j2, s2, c2) / 8)
    return jnp.sqrt(jnp.min(jnp.where(a2 > 0, scale2, jnp.inf)))


def _square(vector: Array) -> Array:
    return jnp.sum(jnp.atleast_1d(vector * vector), axis=0)


def _ratio(a2: Array, j2: Array, s2: Array) -> Array:
    """Twice the square of a timescale of what has these squares of derivatives."""
    below = j2 + jnp.sqrt(a2 * s2)
    return jnp.where(below > 0, 2 * a2 / jnp.where(below > 0, below, 1), jnp.inf)
