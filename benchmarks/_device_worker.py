"""A process of `benchmarks.device`: reads names of cases, answers by lines of JSON."""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import jax

from ._harness import Effort, Row
from ._machine import machine, slug, today, versions
from ._tables import line
from .cases._device_rows import CASES, DeviceCase


_REPOSITORY = str(pathlib.Path(__file__).resolve().parents[1])
#: Characters of what an error says.
_SENTENCE = 600


def work(tiny: bool) -> None:
    """Answers until there is nothing more to read; an empty object ends a case."""
    jax.config.update("jax_enable_x64", True)
    # What is read from disk would be timed as if it had been compiled.
    jax.config.update("jax_enable_compilation_cache", tiny)
    for name in map(str.strip, sys.stdin):
        answers = [_head(tiny)] if name == "head" else _answers(CASES[name], tiny)
        for answer in answers:
            print(json.dumps(answer), flush=True)
        print("{}", flush=True)


def _head(tiny: bool) -> dict[str, Any]:
    """What the file begins with, its name and all cases."""
    described = machine(one_thread=False)
    effort = dataclasses.asdict(Effort(rounds=1, seconds=0.0, tiny=tiny))
    return {
        "file": f"{slug(described['processor'])}-device.json",
        "about": {name: case.about for name, case in CASES.items()},
        "record": {"machine": described, "versions": versions(), "effort": effort},
        "date": today(),
    }


def _answers(case: DeviceCase, tiny: bool) -> Iterator[dict[str, Any]]:
    """A row, or the sentence of its failure, for every row of a case."""
    for name, measure in case.rows(tiny).items():
        try:
            row = measure()
            if row.unit != "tests":  # which have processes of their own
                row = _with_peak_memory(row)
            written = dataclasses.asdict(row) | {"met": row.met}
            json.dumps(written, allow_nan=False)  # NaN is no measurement
            yield {"name": name, "row": written, "line": line(written)}
        except Exception as error:
            sentence = f"{type(error).__name__}: {error}".replace(_REPOSITORY, ".")
            yield {"name": name, "failure": sentence[:_SENTENCE]}


def _with_peak_memory(row: Row) -> Row:
    """The most that this process has had on the device, where that is counted."""
    stats = jax.local_devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use", row.memory_bytes)
    return dataclasses.replace(row, memory_bytes=peak)
