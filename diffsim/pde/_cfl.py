"""`CFL`: steps as long as the waves allow."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._checks import check_number, check_positive
from .._fresh_jit import fresh_jit
from .._sizes import largest
from .._types import Numbers


#: A step may cross so much more than it was chosen for, where the flow became faster,
#: and by its own estimate be off by so much of the field: tubes with shocks are by less
#: than 0.005 at C = 0.5, and than 0.02 at 0.9.
_FASTER, _OFF = 1.5, 0.02

#: Steps grow by no more, and are tried again, shorter, down to so much of what the flow
#: asked for.
_GROWTH, _LEAST = 2.0, 1e-6

#: Of the run, where nothing moves yet.
_FIRST = 1e-3


class CFL(diffrax.AbstractStepSizeController):
    r"""Steps in which the fastest wave crosses a given part of a cell.

    $$h = \frac{C}{\sum_a \bigl(\max|\lambda_a| / \Delta x_a +
      2 D / \Delta x_a^2\bigr)}$$

    measured before every step, D the largest diffusivity or viscosity; an
    `IncompressibleFlow` counts the drag of its obstacle as well. A step is taken back
    and made shorter if the flow became half as fast again on the way, or if the solver
    says that it is off by 2 % of the field, which sources, walls and velocities that
    change with time may make it. Else it follows no error: take a
    `diffrax.PIDController` for one. How steps depend on parameters is not
    differentiated, as with Diffrax's own controllers: `Method.frozen` keeps the steps
    where that matters.

    ```python
    ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.4))
    ```

    **Arguments**

    - `number`: C.

    **Good values:** 0.5 with `SSPRK3`; up to 0.9 is stable with first order upwind, and
    0.3 keeps the error of time below that of space with `WENO5`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are, by
    `crossings(t, u, domain)` or in Fourier modes `fastest`.

    **Limits:** where modes are carried their linear part is not counted, for solvers
    that take it implicitly, nor is the damping of a `Wave`; of other solvers a first
    step that is too long is warned of (convenience).
    """

    number: float | Array
    _direction: Any = eqx.field(repr=False)
    _epoch: Any = eqx.field(repr=False)

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01448839",)

    def __init__(self, number: float | Array = 0.5):
        check_number("number", number)
        check_positive("number", number)
        self.number = number
        self._direction, self._epoch = 1, None

    def with_epoch(self, epoch):
        """Itself, for a run that counts time from its epoch."""
        return eqx.tree_at(lambda c: c._epoch, self, epoch, is_leaf=lambda x: x is None)

    def scaled(self, factor):
        """Itself, with steps that are longer by a factor, to see what they do."""
        return eqx.tree_at(lambda c: c.number, self, factor * self.number)

    def wrap(self, direction):
        return eqx.tree_at(lambda c: c._direction, self, direction)

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        del terms, func, error_order
        # Held as all that steps are chosen by, see `_step`.
        allowed, span = self._step(t0, y0, args), jax.lax.stop_gradient(t1 - t0)
        # Where nothing moves yet it may soon.
        step = jnp.where(allowed < span, allowed, _FIRST * span)
        step = step if dt0 is None else jnp.minimum(dt0, step)
        return t0 + step, jnp.minimum(allowed, span)

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        del error_order
        # Held: no tangent of a step comes back through the length of the next one, nor
        # through an estimate of its error.
        step = jax.lax.stop_gradient(t1 - t0)
        allowed = self._step(t1, y1_candidate, args)
        off = jax.lax.stop_gradient(_relative(y_error, y0, y1_candidate))
        # Written so that NaN fails.
        good = (step <= _FASTER * allowed) & (off <= _OFF)
        last = ~(step > _LEAST * controller_state)
        keep = good | (last & jnp.isfinite(off) & jnp.isfinite(allowed))
        lost = diffrax.RESULTS.where(
            last & ~keep, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful
        )
        wanted = jnp.minimum(allowed, 0.9 * step * jnp.cbrt(_OFF / off))
        shorter = jnp.clip(jnp.where(wanted > 0, wanted, 0), step / 10, step / 2)
        after = jnp.where(keep, jnp.minimum(wanted, _GROWTH * step), shorter)
        start = jnp.where(keep, t1, t0)
        asked = jnp.where(keep, allowed, controller_state)
        return keep, start, start + after, False, asked, lost

    def _step(self, t, u, evolution):
        # Diffrax turns a run round that goes backwards; the clock does not.
        now = jnp.asarray(t) * jnp.asarray(self._direction, jnp.result_type(t))
        now = now if self._epoch is None else self._epoch.at(now)
        # Derivatives are those at frozen steps: where they lie changes only the error.
        return jax.lax.stop_gradient(allowed_step(evolution, self.number, now, u))


def _relative(error: Any, before: Any, after: Any) -> Array:
    """The largest error a step says that it has, over the largest value beside it."""
    sizes = jnp.maximum(largest(before), largest(after))
    if error is None:
        return jnp.zeros_like(sizes)
    return jnp.where(sizes > 0, largest(error) / jnp.where(sizes > 0, sizes, 1), 0)


def largest_step(evolution: Any, number: Numbers = 0.5) -> Array:
    r"""The fixed step at which the fastest wave crosses `number` cells at the start.

    ```python
    step = float(pde.largest_step(tube, 0.5))
    ds.simulate(tube, 0.2, ds.Method(integrators.SSPRK3(), step=0.8 * step))
    ```

    Where Fourier modes are carried that is counted and the linear part is not: a step
    for `ETDRK4` and for solvers with implicit stages.

    **Arguments**

    - `evolution`: an `Evolution`, of an equation that has waves or that spreads; or
        an `IncompressibleFlow`.
    - `number`: C, as for `CFL`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are.

    **Limits:** waves may become faster later (mathematics). The damping of a `Wave` is
    not counted, which `Leapfrog` solves exactly (convenience).
    """
    check_number("number", number)
    check_positive("number", number)
    return allowed_step(evolution, number, evolution.t0, evolution.initial_state())


def allowed_step(simulation: Any, number: Any, t: Any, y: Any) -> Array:
    """The step of `number` crossings from the state y at the time t."""
    rate = crossings_of(simulation, t, y)
    if rate is None:
        name = type(getattr(simulation, "equation", simulation)).__name__
        raise ValueError(
            f"{name} does not say how fast its waves are, by crossings(t, u, domain); "
            "there is no step to be found for it; choose one by its error, or let a "
            "solver with an error estimate choose"
        )
    # Where nothing moves any step will do, a finite one.
    least = jnp.finfo(rate.dtype).tiny ** 0.5
    return jnp.asarray(number, rate.dtype) / jnp.maximum(rate, least)


@fresh_jit
def crossings_of(simulation: Any, t: Any, y: Any) -> Array | None:
    """Of the state y at the time t, None where nothing is known of them."""
    if not hasattr(simulation, "crossings"):
        return None
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
    return simulation.crossings(jnp.asarray(t, dtype), y)
