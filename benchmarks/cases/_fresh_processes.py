"""Fresh processes in turns, and the medians of what they measure."""

import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


#: The line of JSON that one process prints, see `benchmarks.fresh`.
Measurement = dict[str, Any]

_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def run_fresh(*arguments: str) -> Measurement:
    """Run one task in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.fresh", *arguments]
    done = subprocess.run(
        command, cwd=_REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def alternate(count: int, *tasks: Sequence[str]) -> list[list[Measurement]]:
    """Run every task so often, A B A B, each time in a new process."""
    rounds = [[run_fresh(*task) for task in tasks] for _ in range(count)]
    return [list(results) for results in zip(*rounds, strict=True)]


def medians(results: list[Measurement]) -> dict[str, float]:
    """The median of every number."""
    return {
        name: statistics.median(one[name] for one in results)
        for name, value in results[0].items()
        if isinstance(value, int | float)
    }
