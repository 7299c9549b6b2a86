"""`CFL`: steps as long as the waves allow."""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._linalg import max_norm
from ..._types import Numbers, PyTree
from ..._validation import positive, scalar


#: A step may cross so many times what it was chosen for, where the flow became faster,
#: and be off by so much of the field by its own estimate: tubes with shocks are by less
#: than 0.005 at C = 0.5, and than 0.02 at 0.9.
_FASTER, _OFF = 1.5, 0.02

#: The same at C = 0.5 where time is read: a sudden onset has no other sign, and at 0.02
#: every onset loses or makes as much of the field.
_OFF_IN_TIME = 0.005

#: Largest growth of a step, and the shortest one that is tried again, relative to the
#: step that the flow allows, or to the run where nothing moves.
_GROWTH, _LEAST = 2.0, 1e-6

#: First step relative to the run where nothing moves yet.
_FIRST = 1e-3


class CFL(diffrax.AbstractStepSizeController[Any, Any]):
    r"""Step size by the Courant–Friedrichs–Lewy condition: a given Courant number.

    $$h = \frac{C}{\sum_a \bigl(\max|\lambda_a| / \Delta x_a +
      2 D / \Delta x_a^2\bigr)}$$

    measured before every step, D the largest diffusivity or viscosity; an
    `IncompressibleFlow` counts the drag of its obstacle as well. A step is taken back
    and made shorter if the flow became half as fast again on the way, or if the solver
    says that it is off by 2 % of the field. Where sources, walls or velocities change
    with time it may be off by 0.5 % at C = 0.5, the flow is measured in the middle of
    the step as well, steps end at outputs, and none is longer than a hundredth of the
    run, so that what lasts as long is seen; for what is shorter see `Evolution`. Else
    it follows no error: take a `diffrax.PIDController` for one. How steps depend on
    parameters is not
    differentiated, as with Diffrax's own controllers: `Method.freeze_steps` keeps the
    steps where that matters.

    ```python
    def wave(x):
        return 1.5 + jnp.sin(2 * np.pi * x[0])

    steepening = pde.Evolution(pde.Burgers(), wave, pde.Grid(64))
    method = ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.4))
    ds.simulate(steepening, 0.3, method).states
    ```

    **Arguments**

    - `courant_number`: C.

    **Good values:** 0.5 with `SSPRK3`; up to 0.9 is stable with first order upwind, and
    0.3 keeps the error of time below that of space with `WENO5`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are, by
    `courant_rate(t, u, domain)` or in Fourier space `max_advection_speed`.

    **Limits:** where modes are carried their linear part is not counted, for solvers
    that take it implicitly, nor is the damping of a `Wave`; of other solvers a first
    step that is too long is warned of (convenience).
    """

    courant_number: float | Array
    _direction: Any = eqx.field(repr=False)
    _epoch: Any = eqx.field(repr=False)
    _longest: Any = eqx.field(repr=False)
    _part: Any = eqx.field(repr=False)

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01448839",)
    #: Such controllers are run by the adaptive loop of `simulations`.
    never_jumps: ClassVar[bool] = True

    def __init__(self, courant_number: float | Array = 0.5):
        self.courant_number = positive(
            "courant_number", scalar("courant_number", courant_number)
        )
        self._direction, self._epoch = 1, None
        self._longest, self._part = None, 1.0

    def with_epoch(self, epoch: Any) -> "CFL":
        """Return itself, for a run that counts time from its epoch."""
        return eqx.tree_at(lambda c: c._epoch, self, epoch, is_leaf=lambda x: x is None)

    def with_longest_step(self, longest: Any) -> "CFL":
        """Return itself for dynamics that change with time, with a longest step."""
        return eqx.tree_at(
            lambda c: c._longest, self, longest, is_leaf=lambda x: x is None
        )

    @property
    def ends_steps_at_outputs(self) -> bool:
        """Dense output would put what sets in late in a step before it does."""
        return self._longest is not None

    def scaled(self, factor: Any) -> "CFL":
        """Return itself, with steps that are longer by a factor."""
        return eqx.tree_at(
            lambda c: (c.courant_number, c._part),
            self,
            (factor * self.courant_number, factor * self._part),
        )

    def wrap(self, direction: Any) -> "CFL":
        return eqx.tree_at(lambda c: c._direction, self, direction)

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: PyTree,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> tuple[Array, "_Paces"]:
        del terms, func, error_order
        # Without a derivative, as all that steps are chosen by, see `_step`.
        allowed = self._step(t0, y0, args)
        span = jnp.asarray(jax.lax.stop_gradient(t1 - t0))
        # Where nothing moves yet it may soon.
        step = jnp.where(allowed < span, allowed, self._part * _FIRST * span)
        step = self._limit_to_longest(step if dt0 is None else jnp.minimum(dt0, step))
        return t0 + step, _Paces(jnp.minimum(allowed, span), step, span)

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: PyTree,
        y1_candidate: PyTree,
        args: Any,
        y_error: PyTree,
        error_order: Any,
        controller_state: Any,
    ) -> tuple[Array, Array, Array, bool, "_Paces", diffrax.RESULTS]:
        del error_order
        # No tangent of a step comes back through the length of the next one, nor
        # through an estimate of its error.
        step = jnp.asarray(jax.lax.stop_gradient(t1 - t0))
        paces, tolerated = controller_state, self._error_tolerance(step.dtype)
        allowed = self._step(t1, y1_candidate, args)
        least = allowed
        if self._longest is not None:
            # Where time is read, the middle of the step counts as well.
            middle = self._step(t0 + step / 2, y1_candidate, args)
            least = jnp.minimum(allowed, middle)
        # The error that the step reports, over the largest value beside it.
        size = jnp.maximum(max_norm(y0), max_norm(y1_candidate))
        off = jnp.zeros_like(size)
        if y_error is not None:
            off = max_norm(y_error) / jnp.where(size > 0, size, 1)
            # It decides whether a step is kept, which has no derivative.
            off = jax.lax.stop_gradient(jnp.where(size > 0, off, 0))
        # Written so that NaN fails.
        is_within = (step <= _FASTER * least) & (off <= tolerated)
        last = ~(step > _LEAST * paces.reference)
        keep = is_within | (last & jnp.isfinite(off) & jnp.isfinite(allowed))
        lost = diffrax.RESULTS.where(
            last & ~keep, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful
        )
        by_error = 0.9 * step * jnp.cbrt(tolerated / off)
        wanted = jnp.minimum(jnp.where(keep, allowed, least), by_error)
        shorter = jnp.clip(jnp.where(wanted > 0, wanted, 0), step / 10, step / 2)
        # One that an output has cut is no reason for the next ones to be short.
        grown = _GROWTH * jnp.maximum(step, jnp.where(is_within, paces.planned, 0))
        after = jnp.where(
            keep, self._limit_to_longest(jnp.minimum(wanted, grown)), shorter
        )
        start = jnp.where(keep, t1, t0)
        reference = jnp.where(keep, jnp.minimum(allowed, paces.span), paces.reference)
        paces = _Paces(reference, after, paces.span)
        return keep, start, start + after, False, paces, lost

    def _error_tolerance(self, dtype: Any) -> Array:
        """Largest error of a step, as a part of the field."""
        if self._longest is None:
            part = jnp.asarray(_OFF, dtype)
        else:
            # An error of third order, beside shocks as well.
            usual = jnp.maximum(1, (self.courant_number / 0.5) ** 3)
            part = jnp.minimum(_OFF, _OFF_IN_TIME * usual).astype(dtype)
        # It decides whether a step is kept, as the error that it is compared with.
        return jax.lax.stop_gradient(part * self._part**2)

    def _limit_to_longest(self, step: Array) -> Array:
        return step if self._longest is None else jnp.minimum(step, self._longest)

    def _step(self, t, u, evolution):
        # Diffrax turns a run round that goes backwards; the clock does not.
        now = jnp.asarray(t) * jnp.asarray(self._direction, jnp.result_type(t))
        now = now if self._epoch is None else self._epoch.at(now)
        # Derivatives are those at frozen steps: where they lie changes only the error.
        return jax.lax.stop_gradient(
            allowed_step(evolution, self.courant_number, now, u)
        )


class _Paces(NamedTuple):
    """Step that the flow asked for, step that was planned, and span of the run."""

    reference: Array
    planned: Array
    span: Array


def cfl_time_step(evolution: Any, courant_number: Numbers = 0.5) -> Array:
    r"""The time step of a given Courant number at the start of a run.

    ```python
    def sine(x):
        return 1 + jnp.sin(2 * np.pi * x[0])

    wave = pde.Evolution(pde.Burgers(), sine, pde.Grid(64))
    step = float(pde.cfl_time_step(wave, 0.5))  # 0.5 Δx / 2, nearly
    ds.simulate(wave, 0.2, ds.Method(integrators.SSPRK3(), step=0.8 * step))
    ```

    Where Fourier modes are carried that is counted and the linear part is not: a step
    for `ETDRK4` and for solvers with implicit stages.

    **Arguments**

    - `evolution`: an `Evolution`, of an equation with waves or diffusion; or
        an `IncompressibleFlow`.
    - `courant_number`: C, as for `CFL`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are.

    **Limits:** waves may become faster later (mathematics). The damping of a `Wave` is
    not counted, which `Leapfrog` solves exactly (convenience).
    """
    positive("courant_number", scalar("courant_number", courant_number))
    return allowed_step(
        evolution, courant_number, evolution.t0, evolution.initial_state()
    )


def allowed_step(simulation: Any, courant_number: Any, t: Any, y: Any) -> Array:
    """The step of `courant_number` crossings from the state y at the time t."""
    rate = courant_rate_of(simulation, t, y)
    if rate is None:
        name = type(getattr(simulation, "equation", simulation)).__name__
        raise ValueError(
            f"{name} defines no courant_rate(t, u, domain), which CFL needs; choose a "
            "step by its error, or let a solver with an error estimate choose"
        )
    # Where nothing moves any step will do, a finite one.
    least = jnp.finfo(rate.dtype).tiny ** 0.5
    return jnp.asarray(courant_number, rate.dtype) / jnp.maximum(rate, least)


@fresh_jit
def courant_rate_of(simulation: Any, t: Any, y: Any) -> Array | None:
    """Courant rate of the state y at the time t, None where it is not known."""
    if not hasattr(simulation, "courant_rate"):
        return None
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
    return simulation.courant_rate(jnp.asarray(t, dtype), y)
