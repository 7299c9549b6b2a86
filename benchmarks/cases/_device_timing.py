"""How rows of the prepared run on a GPU are timed: few runs, and a check of each."""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._harness import Program, Row, once


#: What measures the rows of a case, by their names.
Rows = dict[str, Callable[[], Row]]


def median(program: Program) -> float:
    """Seconds of a few runs, or of one that takes long."""
    seconds = [once(program)]
    while len(seconds) < 5 and sum(seconds) < 3:
        seconds.append(once(program))
    return statistics.median(seconds)


def rate_row(
    what: str,
    program: Program,
    rate: tuple[float, str],
    check: tuple[float, str],
    share: Callable[[float], dict[str, Any]],
    **rest: Any,
) -> Row:
    """A row of so many units a second.

    - `rate`: how many a run takes, and of what.
    - `check`: the error and what it is against.
    - `share`: of what the device can do, by the seconds of a run.
    """
    seconds = median(program)
    return Row(
        what,
        rate[0] / seconds,
        rate[1],
        seconds=seconds,
        error=check[0],
        reference=check[1],
        compile_seconds=program.compile_seconds,
        memory_bytes=program.memory_bytes,
        details=share(seconds) | rest.pop("details", {}),
        **rest,
    )


def euler_check(value: Any, slopes: Any, at: Any) -> tuple[float, str]:
    """By how much x·∇L = 2L fails for an L of degree 2, as Euler's theorem has it."""
    product = np.sum(np.asarray(slopes, float) * np.asarray(at, float))
    return float(abs(product / (2 * float(value)) - 1)), "Euler's theorem"


def called_twice(call: Callable[[], Any], row: Callable[[Any, float], Row]) -> Row:
    """`row` of the value and the seconds of a second call; the first one compiles."""
    seconds, value = [], None
    for _ in range(2):
        begin = time.perf_counter()
        value = jax.block_until_ready(call())
        seconds.append(time.perf_counter() - begin)
    compiling = seconds[0] - seconds[1]
    return dataclasses.replace(row(value, seconds[1]), compile_seconds=compiling)
