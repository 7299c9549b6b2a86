"""A session of measurements: which cases run here, and what is kept of them."""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from typing import Any

import jax

from ._harness import Case, Effort, Row
from ._machine import machine, slug, today, versions
from ._processes import in_processes
from ._tables import line
from .cases import CASES


def run(options: argparse.Namespace, *, one_thread: bool) -> None:
    """Measures case after case and saves after each."""
    jax.config.update("jax_enable_x64", True)
    # What is read from disk would be timed as if it had been compiled.
    jax.config.update("jax_enable_compilation_cache", False)
    effort = Effort(options.rounds, options.seconds)
    if options.tiny:
        effort = Effort(rounds=1, seconds=0.0, tiny=True)
    head = {
        "machine": machine(one_thread, by_release=options.by_release),
        "versions": versions(),
        "effort": dataclasses.asdict(effort),
    }
    for case in _chosen(options.only):
        if case.device != options.device:
            print(_skipped(case), flush=True)
            continue
        if case.device != head["machine"]["device"]:
            print(f"{case.name}: skipped, JAX sees no GPU", flush=True)
            continue
        print(f"{case.name}: {case.about}", flush=True)
        count = options.processes or (1 if effort.tiny else case.processes)
        found = _measured(case, effort, count)
        if options.out is not None:
            _save(options.out, head, {case.name: found})


def _chosen(names: list[str] | None) -> list[Case]:
    known = {case.name: case for case in CASES}
    for name in names or ():
        if name not in known:
            sys.exit(f"no benchmark is named {name}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(CASES)


def _skipped(case: Case) -> str:
    if case.device == "gpu":
        return f"{case.name}: skipped, it needs a GPU and --device gpu"
    return f"{case.name}: skipped, it measures one core; run it with --device cpu"


def _measured(case: Case, effort: Effort, processes: int) -> dict[str, Any]:
    start = time.perf_counter()
    several = processes > 1
    found = in_processes(case, effort, processes) if several else _here(case, effort)
    for row in found:
        print(f"  {line(row)}", flush=True)
    seconds = time.perf_counter() - start
    return {"about": case.about, "date": today(), "seconds": seconds, "rows": found}


def _here(case: Case, effort: Effort) -> list[dict[str, Any]]:
    rows: list[Row] = case.measure(effort)
    if effort.tiny:  # targets are about full sizes
        rows = [dataclasses.replace(row, target=None) for row in rows]
    # Compiled programs of one case are no burden to the next.
    jax.clear_caches()
    return [dataclasses.asdict(row) | {"met": row.met} for row in rows]


def _save(folder: pathlib.Path, head: dict[str, Any], cases: dict[str, Any]) -> None:
    """Adds `cases` to the file of this machine.

    Cases measured before stay if they were measured on the same machine with the same
    versions and effort; a file that mixes those would compare what cannot be compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug(head['machine']['processor'])}.json"
    if path.exists():
        before = json.loads(path.read_text())
        kept = before.pop("cases")
        # Tuples and lists are the same to JSON.
        if before == json.loads(json.dumps(head)):
            cases = kept | cases
        else:
            print(f"  {path.name} began anew: versions, machine or effort differ")
    ordered = {c.name: cases[c.name] for c in CASES if c.name in cases}
    text = json.dumps(head | {"cases": ordered}, indent=1, allow_nan=False)
    path.write_text(text + "\n")
