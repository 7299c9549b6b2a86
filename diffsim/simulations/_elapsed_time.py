"""Time elapsed since the epoch: `Epoch`, and output times.

`_longest_part` of `_integrate/_plan` finds out whether a rate reads the time.
"""

import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import PyTree
from .._validation import (
    as_floating,
    as_jax_takes,
    check_unitless,
    is_traced,
    scalar,
)
from ._terms._imex import AbstractIMEXTerm
from ._terms._operator_splitting import AbstractSplitFlows
from ._terms._semilinear import Semilinear
from ._terms._separable import Separable


_Time = TypeVar("_Time")

#: What t0 + (t - t0) may be off from t, in roundings of the largest of them.
_ULPS_OF_A_SUM = 2


class Epoch(eqx.Module):
    r"""The time $t = t_0 + s$ that is `s` after the epoch.

    A run counts s, whose steps are as fine as its type has digits; near a Julian date
    a number in single precision resolves six hours. What depends on t is given the sum,
    rounded once: $t_0$ is held as two numbers of that type.
    """

    #: Both None where t0 is the number zero, to which nothing is added.
    high: Array | None
    low: Array | None
    dtype: Any = eqx.field(static=True)

    def __init__(self, t0: float | Array, dtype: Any):
        self.dtype = dtype
        self.high = self.low = None
        if isinstance(t0, float | int) and t0 == 0:
            return
        # What is known is in double precision, whatever JAX may hold.
        date: Any = t0 if is_traced(t0) else np.asarray(t0, np.float64)
        high = date.astype(dtype)
        self.high = jnp.asarray(high)
        self.low = jnp.asarray((date - high.astype(date.dtype)).astype(dtype))

    @property
    def zero(self) -> Array:
        """The time of the epoch itself."""
        return jnp.zeros((), self.dtype)

    def at(self, elapsed: _Time) -> _Time | Array:
        """The time `elapsed` after the epoch."""
        if self.high is None or self.low is None:
            return elapsed
        later: Any = elapsed
        return self.high + (self.low + later)

    def shift(
        self, terms: PyTree[diffrax.AbstractTerm]
    ) -> PyTree[diffrax.AbstractTerm]:
        """`terms` as functions of elapsed time."""
        if self.high is None:
            return terms
        return jax.tree.map(
            lambda x: _shifted(x, self) if _is_term(x) else x, terms, is_leaf=_is_term
        )


@runtime_checkable
class ReadsTime(Protocol):
    """A step-size controller that is given the epoch, for what depends on time."""

    def with_epoch(self, epoch: Epoch) -> diffrax.AbstractStepSizeController:
        """Itself, for times that are counted from the epoch."""
        ...


def elapsed_since(t0: Any, times: Any) -> Array | np.ndarray:
    """Differences of times: in double precision where all of them are known."""
    if is_traced(t0) or is_traced(times):
        return jnp.asarray(times) - t0
    return np.asarray(np.asarray(times, np.float64) - np.asarray(t0, np.float64))


def longest_elapsed(t0: Any, times: Any) -> float | None:
    """The way to the furthest time, None where it is traced."""
    elapsed = elapsed_since(t0, times)
    return None if is_traced(elapsed) else float(np.max(np.abs(elapsed)))


def time_after(t0: Any, elapsed: Any) -> float | Array:
    """The time `elapsed` after `t0`, for a user: as precise as can be held."""
    return _after(t0, elapsed)


def times_after(t0: Any, elapsed: Any) -> Array | np.ndarray:
    """The same of an array."""
    return _after(t0, elapsed)


def _after(t0: Any, elapsed: Any):
    if isinstance(t0, float | int) and t0 == 0:
        return elapsed
    if not is_traced(t0) and not is_traced(elapsed):
        found: Any = np.asarray(elapsed, np.float64) + np.asarray(t0, np.float64)
        return found  # of one number NumPy's float
    return jnp.asarray(elapsed, jnp.result_type(float, elapsed)) + t0


def ends_after(t0: Any, ends: Any, times: Any) -> Array | np.ndarray:
    """The times of the ends of steps, the outermost ones those of outputs exactly."""
    ends = times_after(t0, ends)
    if isinstance(ends, np.ndarray) and not is_traced(times):
        for t in (np.min(times), np.max(times)):
            rounding = np.spacing(max(abs(float(t)), abs(float(t0))))
            close = np.abs(ends - t) <= _ULPS_OF_A_SUM * rounding
            ends = np.where(close, t, ends)
    return ends


def controller_since(
    t0: Any, controller: diffrax.AbstractStepSizeController, dtype: Any
) -> diffrax.AbstractStepSizeController:
    """`controller`, of a user who counts from zero, for elapsed time."""
    if isinstance(t0, float | int) and t0 == 0:
        return controller
    if isinstance(controller, diffrax.StepTo):
        return diffrax.StepTo(elapsed_since(t0, controller.ts))
    if isinstance(controller, diffrax.ClipStepSizeController):
        inner: Any = controller_since(t0, controller.controller, dtype)
        at, jumps = controller.step_ts, controller.jump_ts
        since: list[Any] = [
            None if ts is None else elapsed_since(t0, ts) for ts in (at, jumps)
        ]
        return diffrax.ClipStepSizeController(
            inner, *since, store_rejected_steps=controller.store_rejected_steps
        )
    if isinstance(controller, diffrax.PIDController | diffrax.ConstantStepSize):
        return controller
    epoch = Epoch(t0, dtype)
    if isinstance(controller, ReadsTime):
        return controller.with_epoch(epoch)
    return _ElapsedTimeController(controller, epoch, 1)


def _is_term(x: Any) -> bool:
    return isinstance(x, diffrax.AbstractTerm)


def _shifted(term: diffrax.AbstractTerm, epoch: Epoch) -> diffrax.AbstractTerm:
    """One term as a function of elapsed time, of the kind that solvers look for."""

    def later(function):
        return _Later(function, epoch)

    if isinstance(term, diffrax.MultiTerm):
        return diffrax.MultiTerm(*(_shifted(each, epoch) for each in term.terms))
    if isinstance(term, diffrax.ODETerm):
        return diffrax.ODETerm(later(term.vector_field))
    if isinstance(term, Separable):
        return Separable(later(term.drift), later(term.kick))
    if isinstance(term, Semilinear):
        return eqx.tree_at(lambda x: x.nonlinear, term, later(term.nonlinear))
    if isinstance(term, AbstractSplitFlows):
        return _LaterFlows(term, epoch)
    if isinstance(term, AbstractIMEXTerm):
        return _LaterSplit(term, epoch)
    return _LaterTerm(term, epoch)


class _Later(eqx.Module):
    """A function of time first, of elapsed time."""

    function: Callable
    epoch: Epoch

    def __call__(self, t, *others):
        return self.function(self.epoch.at(t), *others)


class _LaterFlows(AbstractSplitFlows):
    term: AbstractSplitFlows
    epoch: Epoch

    def first(self, t, y, length, args):
        return self.term.first(self.epoch.at(t), y, length, args)

    def second(self, t, y, length, args):
        return self.term.second(self.epoch.at(t), y, length, args)

    def with_closures_as_leaves(self, t, y, args):
        return _LaterFlows(
            self.term.with_closures_as_leaves(self.epoch.at(t), y, args), self.epoch
        )

    def vf(self, t, y, args):
        return self.term.vf(self.epoch.at(t), y, args)


class _LaterSplit(AbstractIMEXTerm):
    term: AbstractIMEXTerm
    epoch: Epoch

    @property
    def fully_implicit(self):
        return self.term.fully_implicit

    def explicit(self, t, y, args):
        return self.term.explicit(self.epoch.at(t), y, args)

    def implicit(self, t, y, args):
        return self.term.implicit(self.epoch.at(t), y, args)

    def solve(self, t, rhs, length, guess, args):
        return self.term.solve(self.epoch.at(t), rhs, length, guess, args)

    def vf(self, t, y, args):
        return self.term.vf(self.epoch.at(t), y, args)


class _LaterTerm(diffrax.AbstractTerm):
    """A term that nothing is known about, its control included, in elapsed time."""

    term: diffrax.AbstractTerm
    epoch: Epoch

    def vf(self, t, y, args):
        return self.term.vf(self.epoch.at(t), y, args)

    def contr(self, t0, t1, **kwargs):
        return self.term.contr(self.epoch.at(t0), self.epoch.at(t1), **kwargs)

    def prod(self, vf, control):
        return self.term.prod(vf, control)

    def vf_prod(self, t, y, args, control):
        return self.term.vf_prod(self.epoch.at(t), y, args, control)

    def is_vf_expensive(self, t0, t1, y, args):
        return self.term.is_vf_expensive(self.epoch.at(t0), self.epoch.at(t1), y, args)


class OnClock(diffrax.AbstractTerm):
    """A term on a clock that runs forwards, as `diffeqsolve` makes one."""

    term: Any
    direction: Array

    def vf(self, t, y, args):
        return self.term.vf(self.direction * t, y, args)

    def contr(self, t0, t1, **options):
        onward = self.direction == 1
        start, end = jnp.where(onward, t0, -t1), jnp.where(onward, t1, -t0)
        found = self.term.contr(start, end, **options)
        return jax.tree.map(lambda c: self.direction * c, found)

    def prod(self, vf, control):
        return self.term.prod(vf, control)

    def vf_prod(self, t, y, args, control):
        return self.term.vf_prod(self.direction * t, y, args, control)


class _ElapsedTimeController(diffrax.AbstractStepSizeController):
    """A user's own controller, which is given times and not what has elapsed."""

    controller: Any
    epoch: Epoch
    direction: Any

    def wrap(self, direction):
        inner = self.controller.wrap(direction)
        return _ElapsedTimeController(inner, self.epoch, direction)

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        def evaluated(terms, t, y, args):
            return func(terms, self._back(t), y, args)

        t0, t1 = self._ahead(t0), self._ahead(t1)
        end, state = self.controller.init(
            terms, t0, t1, y0, dt0, args, evaluated, error_order
        )
        return self._back(end), state

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        t0, t1 = self._ahead(t0), self._ahead(t1)
        keep, start, end, *rest = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        return keep, self._back(start), self._back(end), *rest

    def _ahead(self, t):
        return self.direction * self.epoch.at(self.direction * t)

    def _back(self, t):
        return t - self._ahead(jnp.zeros_like(t))


#: A way to the first output of so many times the span of all is one that nobody means.
_FAR = 1e4
#: Doubles hold every integer up to this one.
_HELD = 2**53


def checked_times(times: Any) -> Array | np.ndarray:
    """`times` as floats, concrete ones as NumPy, in double precision if not given."""
    listed = times if isinstance(times, list | tuple) else [times]
    if any(map(is_traced, listed)):
        times = as_floating("times", times)
    else:
        check_unitless("times", times)
        times = np.asarray(as_jax_takes("times", times))
        if not np.issubdtype(times.dtype, np.number) or np.iscomplexobj(times):
            raise ValueError(f"times must be real numbers, got dtype {times.dtype}")
        _check_held("times", times)
        times = times.astype(np.promote_types(times.dtype, np.float32))
    if times.ndim > 1 or times.size == 0:
        raise ValueError(
            f"times must have shape (time,) or (), one or more, got {times.shape}"
        )
    if not is_traced(times):
        _check_ascending(times)
    return times


def _check_held(name: str, given: Any):
    """Refuse integers that doubles round, after which outputs would be others."""
    given = np.asarray(given)
    if given.dtype.kind not in "iuO":  # Python's own, beyond 64 bits, are objects
        return
    # All below are held; the few above are compared as Python's integers.
    large = given[(given > _HELD) | (given < -_HELD)]
    lost = [int(t) for t in large.flat if int(float(t)) != int(t)]
    if lost:
        raise ValueError(
            f"{name} must be held exactly by float64, got the integer {lost[0]}, which "
            f"it rounds to {int(float(lost[0]))}; count from a nearer epoch, which is "
            "subtracted from t0 and times while they are integers"
        )


def _check_ascending(times: np.ndarray):
    if not np.all(np.isfinite(times)):
        raise ValueError("times must be finite, got NaN or infinity among them")
    if times.ndim and np.any(np.diff(times) < 0):
        where = int(np.argmax(np.diff(times) < 0))
        raise ValueError(
            f"times must ascend, got {times[where]} before {times[where + 1]}; sort "
            "them, times before t0 included"
        )


def check_epoch(t0: Any):
    """Raise `ValueError` for an epoch that is not one finite, exact number."""
    scalar("t0", t0)
    if not is_traced(t0):
        _check_held("t0", t0)
    if not is_traced(t0) and not np.isfinite(np.asarray(t0, np.float64)):
        raise ValueError(f"t0 must be finite, got {t0}")


def warn_of_a_far_start(t0: Any, times: Any):
    """Warns of outputs far from an epoch of zero, which nobody may have chosen.

    And of dates that are too coarse for their distance from it.
    """
    _warn_of_coarse_dates(t0, times)
    if is_traced(times) or is_traced(t0) or np.asarray(t0).item() != 0:
        return
    first, last = float(np.min(times)), float(np.max(times))
    way = max(first, -last)
    if first < last and way > _FAR * (last - first):
        warnings.warn(
            f"times from {first:.10g} to {last:.10g} lie far from t0 = 0, so that most "
            f"of the run is the way there; if the initial state holds at another time, "
            f"say t0={first:.10g}, give it to the simulation as t0=",
            # this function, simulate, the caller
            stacklevel=3,
        )


#: Of the way from the epoch to the last output, what times may be rounded by.
_COARSE = 1e-5


def _warn_of_coarse_dates(t0: Any, times: Any):
    """Warns of dates in single precision, which lie between those that are meant."""
    if is_traced(times) or is_traced(t0) or np.asarray(times).dtype != np.float32:
        return
    way = np.max(np.abs(np.asarray(times, np.float64) - np.asarray(t0, np.float64)))
    last = np.float32(np.max(np.abs(times)))
    if last > 10 * way and np.spacing(last) > _COARSE * way:
        warnings.warn(
            f"times near {last:.8g} are float32, which resolves {np.spacing(last):.2g} "
            "there; give them as NumPy's float64 or as a list, of which a run counts "
            "from t0, or subtract a date from t0 and times",
            # this function, the other one, simulate, the caller
            stacklevel=4,
        )
