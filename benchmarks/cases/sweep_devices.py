"""Sweeps on two cores as devices, and on two processes, beside one core."""

import json
import pathlib
import socket
import statistics
import subprocess
import sys
from typing import Any

from .._harness import Case, Effort, Row
from .._processes import SPREAD
from ..fresh.shared_sweeps import SIZES


_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_WHAT = {
    "bodies": "{} systems of 5 bodies, {} steps of leapfrog",
    "field": "{} runs of Burgers' equation on 128², {} steps of SSPRK3",
}
_PAIRS = 3


def measure(effort: Effort) -> list[Row]:
    """One core, two devices, two processes, in turns; medians of their ratios."""
    rows = []
    for task in SIZES:
        turns = [_turn(task, effort.tiny) for _ in range(effort.size(_PAIRS, 1))]
        what = _WHAT[task].format(*SIZES[task][effort.tiny])
        rows.append(_row(f"two cores as devices: {what}", "devices", 1.85, turns))
        if task == "bodies":
            rows.append(_row(f"two processes by Gloo: {what}", "hosts", 1.7, turns))
    return rows


def _turn(task: str, tiny: bool) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    hosts = [_begun(task, 1, tiny, "--hosts", port, str(i), "2") for i in range(2)]
    return {
        "hosts": max(map(_ended, hosts), key=lambda found: found["seconds"]),
        "one": _ended(_begun(task, 1, tiny)),
        "devices": _ended(_begun(task, 2, tiny)),
        "tied": _ended(_begun(task, 2, tiny, "--tied")),
    }


def _begun(task: str, devices: int, tiny: bool, *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "benchmarks.fresh.shared_sweeps", task]
    command += [str(devices), *words, *(["--tiny"] if tiny else [])]
    return subprocess.Popen(
        command,
        cwd=_REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(running: subprocess.Popen) -> dict[str, Any]:
    out, error = running.communicate()
    if running.returncode:
        raise RuntimeError(error)
    return json.loads(out.splitlines()[-1])


def _row(what: str, kind: str, target: float, turns: list[dict[str, Any]]) -> Row:
    ratios, same_program = (
        sorted(turn[base]["seconds"] / turn[kind]["seconds"] for turn in turns)
        for base in ("one", "tied")
    )
    same = all(turn["one"]["digest"] == turn[kind]["digest"] for turn in turns)
    return Row(
        what,
        statistics.median(ratios),
        unit="×",
        target=target,
        at_least=True,
        peer="one core",
        seconds=min(turn[kind]["seconds"] for turn in turns),
        peer_seconds=min(turn["one"]["seconds"] for turn in turns),
        error=0.0 if same else 1.0,
        reference="one core, bit for bit",
        # XLA fuses a program for two devices otherwise: of a field half is computed.
        details={
            SPREAD: ratios,
            "of two devices on one core": statistics.median(same_program),
        },
    )


CASE = Case("sweep_devices", __doc__ or "", measure)
