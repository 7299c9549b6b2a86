"""Controllers that give up where steps become shorter than time can tell."""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp

from .._results import equals
from ._landing import Landing


#: A step of so many roundings of the time, or fewer, leads nowhere: at a pole of
#: y' = y² steps of two go on for ever. Singles late in a long run do take steps of a
#: few, 0.2 at 1e5.
_ULPS = 4


def guarded(controller: Any, dtype: Any) -> Any:
    """`controller`, given times of this type, and up where its steps shrink away."""
    if isinstance(controller, diffrax.PIDController):
        return _Guarded(controller)
    if isinstance(controller, Landing | diffrax.ClipStepSizeController):
        inner = guarded(controller.controller, dtype)
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
