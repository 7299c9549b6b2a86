"""Checks of options: names that a function takes, and limits."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._validation import check_known, check_unitless


def checked_options(
    function: str, given: dict[str, Any], known: Sequence[str]
) -> dict[str, Any]:
    """Options given, beside None for others that are known.

    **Raises:** `TypeError` for one that is not.
    """
    for name in given:
        if name not in known:
            raise TypeError(
                f"plots.{function} draws this and has no option {name!r}; it takes "
                f"{', '.join(known)}"
            )
    return dict.fromkeys(known) | given


def check_options(function: Callable[..., Any], given: dict[str, Any]):
    """Raise `TypeError` for an option that a function of this package does not take.

    One that passes options on checks them itself.
    """
    _, *parameters = inspect.signature(function).parameters.values()
    passes_on = parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    if not passes_on:
        called = function.__name__
        checked_options(called, given, [p.name for p in parameters])


def checked_numbers(name: str, values: Any) -> np.ndarray:
    """`values` as an array of NumPy; units would be lost, and traced ones unknown."""
    check_unitless(name, values)
    check_known(name, values)
    return np.asarray(values)


def checked_limits(limits: Any) -> tuple[float, float]:
    """Limits of colors or of an axis, two numbers that ascend."""
    ends = np.asarray(limits, float) if np.ndim(limits) == 1 else np.empty(0)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(
            "limits must be two numbers that ascend, the least and the largest value "
            f"that is drawn, or, of colors, a norm of Matplotlib, got {limits!r:.60}"
        )
    return float(ends[0]), float(ends[1])
