"""Step size controllers: steps that end at outputs, and a least step."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import equals


#: A step grows by this part of it at most, so that no next one is a sliver.
_STRETCH = 0.01


class StepToOutputs(diffrax.AbstractStepSizeController):
    """A controller's steps, made equal on the way to the next of `times`.

    Diffrax's `ClipStepSizeController` may leave a rest of a rounding's length, over
    which an implicit stage has no slope.
    """

    controller: diffrax.AbstractStepSizeController
    times: Array

    def __init__(self, controller: Any, times: Array):
        self.controller = controller
        # Held: a tangent of the times would pass into the lengths of all later steps,
        # where the controller makes it grow without bound. An output still has its
        # derivative by its own time, that along the step which ends there.
        self.times = jax.lax.stop_gradient(times)

    def wrap(self, direction):
        inner, ends = self.controller.wrap(direction), jnp.sort(direction * self.times)
        return eqx.tree_at(lambda c: (c.controller, c.times), self, (inner, ends))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        end, state = self.controller.init(
            terms, t0, t1, y0, dt0, args, func, error_order
        )
        return self._landed(t0, end), state

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        keep, start, end, jumped, state, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        return keep, start, self._landed(start, end), jumped, state, result

    def _landed(self, start, end):
        """The end of a step that would go from `start` to `end`."""
        place = jnp.sum(self.times <= start)
        output = self.times[jnp.minimum(place, self.times.size - 1)]
        steps = jnp.ceil((output - start) / (end - start) - _STRETCH)
        one_of_them = start + (output - start) / jnp.maximum(steps, 1)
        landed = jnp.where(steps > 1, one_of_them, output)
        return jnp.where(place < self.times.size, landed, end)


#: A step of so many roundings of the time, or fewer, leads nowhere: at a pole of
#: y' = y² steps of two go on for ever. Singles late in a long run do take steps of a
#: few, 0.2 at 1e5.
_ULPS = 4


def with_minimum_step(
    controller: diffrax.AbstractStepSizeController, dtype: Any
) -> diffrax.AbstractStepSizeController:
    """`controller`, given times of this type, and up where its steps shrink away."""
    if isinstance(controller, diffrax.PIDController):
        return _Guarded(controller)
    if isinstance(controller, StepToOutputs | diffrax.ClipStepSizeController):
        inner = with_minimum_step(controller.controller, dtype)
        return eqx.tree_at(lambda c: c.controller, controller, inner)
    if isinstance(controller, diffrax.StepTo):
        # Else the state would be promoted by them.
        return eqx.tree_at(lambda c: c.ts, controller, controller.ts.astype(dtype))
    return controller


class _Guarded(diffrax.AbstractAdaptiveStepSizeController):
    """Ends a run at once that else would reject steps until there are no more.

    Time is counted from the epoch, so that it tells apart what is short near it.
    """

    controller: Any

    def __init__(self, controller: Any):
        self.controller = controller

    @property
    def rtol(self):
        return self.controller.rtol

    @property
    def atol(self):
        return self.controller.atol

    @property
    def norm(self):
        return self.controller.norm

    def wrap(self, direction):
        return _Guarded(self.controller.wrap(direction))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        return self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        keep, start, end, jumped, state, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        # Written so that NaN is too short.
        ulp = jnp.finfo(jnp.result_type(start)).eps * jnp.abs(start)
        ulps = _ULPS if ulp.dtype == jnp.float64 else jnp.where(keep, 1, 2)
        short = ~(end - start > ulps * ulp)
        stuck = diffrax.RESULTS.where(
            short, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful
        )
        fine = equals(result, diffrax.RESULTS.successful)
        result = stuck if fine is True else diffrax.RESULTS.where(fine, stuck, result)
        return keep, start, end, jumped, state, result
