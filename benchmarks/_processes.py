"""A case in one fresh process after another, where its numbers differ between them.

Where the pages of its arrays lie is decided once for a process, and what streams
through the caches is faster or slower for all of its life.
"""

import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from ._harness import Case, Effort


#: Of `Row.details`: the values of all processes, from the least to the most.
SPREAD = "in_processes"

_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def in_processes(case: Case, effort: Effort, count: int) -> list[dict[str, Any]]:
    """Of every row the one of the median process; the effort is shared among them."""
    effort = dataclasses.replace(
        effort, rounds=math.ceil(effort.rounds / count), seconds=effort.seconds / count
    )
    found = [_fresh(case, effort) for _ in range(count)]
    return [_middle(rows) for rows in zip(*found, strict=True)]


def _fresh(case: Case, effort: Effort) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.run", "--only", case.name]
    command += ["--device", case.device, "--processes", "1"]
    command += ["--rounds", str(effort.rounds), "--seconds", str(effort.seconds)]
    command += ["--tiny"] if effort.tiny else []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*command, "--out", folder],
            cwd=_REPOSITORY,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        (path,) = pathlib.Path(folder).glob("*.json")
        return json.loads(path.read_text())["cases"][case.name]["rows"]


def _middle(rows: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    assert len({row["what"] for row in rows}) == 1, rows
    ordered = sorted(rows, key=lambda row: row["value"])
    middle = ordered[len(ordered) // 2]
    values = [row["value"] for row in ordered]
    return middle | {"details": middle["details"] | {SPREAD: values}}
