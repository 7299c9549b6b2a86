"""First results of fresh processes: what a user waits for, tracing and compiling."""

import tempfile
from typing import Any

import numpy as np

from .._harness import Case, Effort, Row, deviation
from .._processes import SPREAD
from ._first_contests import (
    CACHED_TASKS,
    CONTESTS,
    COUNTED_TASKS,
    DEPENDENCIES,
    MOST_COMPILATIONS,
    SECOND_VALUES,
    Contest,
)
from ._fresh_processes import Measurement, alternate, medians, run_fresh


def measure(effort: Effort) -> list[Row]:
    """Each task in five processes, ours and the peer's in turns."""
    count, few = effort.size(5, 1), slice(effort.size(99, 1))
    rows, ours = [], {}
    for contest in CONTESTS[few]:
        results = alternate(count, [contest.ours], [contest.theirs])
        rows.append(_first_result_row(contest, *results))
        ours[contest.ours] = results[0]
    for name, task in list(COUNTED_TASKS.items())[few]:
        rows.append(_compilation_row(name, ours[task]))
    rows.append(_import_row(count))
    for name, task in list(CACHED_TASKS.items())[few]:
        rows += _filled_cache_rows(name, task, count)
    for kind in SECOND_VALUES[few]:
        rows += _second_value_rows(kind)
    return rows


CASE = Case("first_results", __doc__ or "", measure)


def _first_result_row(
    contest: Contest, ours: list[Measurement], theirs: list[Measurement]
) -> Row:
    found, other = (
        [np.asarray(leaf) for leaf in results[0]["value"]] for results in (ours, theirs)
    )
    mine = medians(ours)
    return _ratio_of_medians(
        f"first result: {contest.what}",
        ours,
        theirs,
        peer=contest.peer,
        target=contest.target,
        error=deviation(found, other),
        reference=contest.peer,
        compile_seconds=mine["tracing"] + mine["lowering"] + mine["compiling"],
    )


def _ratio_of_medians(
    what: str, ours: list[Measurement], theirs: list[Measurement], **rest: Any
) -> Row:
    """A row of the ratio of medians, with the ratios of all pairs of processes."""
    mine, other = medians(ours), medians(theirs)
    pairs = zip(ours, theirs, strict=True)
    ratios = sorted(one["seconds"] / two["seconds"] for one, two in pairs)
    details: dict[str, Any] = {"ours": mine, "peer": other}
    if len(ratios) > 1:
        details[SPREAD] = ratios
    return Row(
        what,
        mine["seconds"] / other["seconds"],
        seconds=mine["seconds"],
        peer_seconds=other["seconds"],
        details=details,
        **rest,
    )


def _compilation_row(name: str, results: list[Measurement]) -> Row:
    most = max(results, key=lambda one: one["compilations"])
    return Row(
        f"compilations before the first result: {name}",
        most["compilations"],
        unit="programs",
        target=MOST_COMPILATIONS,
        details={"programs": most["programs"]},
    )


def _import_row(count: int) -> Row:
    ours, theirs = alternate(count, ["imports", "diffsim"], ["imports", *DEPENDENCIES])
    return _ratio_of_medians(
        "`import diffsim`", ours, theirs, peer="importing what it imports", target=1.4
    )


def _filled_cache_rows(name: str, task: str, count: int) -> list[Row]:
    """Beside a persistent cache that an earlier process filled."""
    with tempfile.TemporaryDirectory() as folder:
        command = [task, "--cache", folder]
        run_fresh(*command)
        (results,) = alternate(count, command)
    compiled = [one["compilations"] - one["cache_hits"] for one in results]
    found = medians(results)
    traced = found["tracing"] + found["lowering"]
    what = f"first result from a filled cache: {name}"
    return [
        Row(f"{what}, programs not found", max(compiled), unit="programs", target=0),
        Row(
            what,
            found["seconds"] / traced,
            peer="its tracing and lowering",
            target=1.3,
            seconds=found["seconds"],
            peer_seconds=traced,
            details=found,
        ),
    ]


def _second_value_rows(kind: str) -> list[Row]:
    """A call with an object that holds another number, after one with the first."""
    found = run_fresh("second_values", kind)
    more = 1e3 * (found["seconds"] - found["same"])
    what = f"{kind} with another number"
    return [
        Row(
            f"{what}, compilations",
            len(found["programs"]),
            unit="programs",
            target=0,
            details={"programs": found["programs"]},
        ),
        Row(f"{what}, more than the same call again", more, unit="ms", target=20),
    ]
