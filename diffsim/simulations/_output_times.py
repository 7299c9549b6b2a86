"""Output times and the epoch, as they are given."""

import warnings
from typing import Any

import numpy as np

from .._checks import as_floating, check_number, check_unitless, is_traced
from .._numbers import as_jax_takes


#: A way to the first output of so many times the span of all is one that nobody means.
_FAR = 1e4
#: Doubles hold every integer up to this one.
_HELD = 2**53


def checked_times(times: Any) -> Any:
    """`times` as floats, concrete ones as NumPy, in double precision if not given."""
    if is_traced(times):
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
    """Objects to an epoch that is not one finite number, or that doubles round."""
    check_number("t0", t0)
    if not is_traced(t0):
        _check_held("t0", t0)
    if not is_traced(t0) and not np.isfinite(np.asarray(t0, np.float64)):
        raise ValueError(f"t0 must be finite, got {t0}")


def warn_of_a_far_start(t0: Any, times: Any):
    """Warns of outputs far from an epoch of zero, which nobody may have chosen."""
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
