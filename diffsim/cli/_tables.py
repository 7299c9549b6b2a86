"""Tables of what was measured, to read and for the documentation."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """One line of a table, and what is wrong with it."""

    cells: tuple[str, ...]
    failures: tuple[str, ...] = ()


def tabulated(
    header: Sequence[str],
    cases: Sequence[tuple[str, Any]],
    measure: Callable[[Any], Measured],
    *,
    left: int,
    markdown: bool,
) -> int:
    """Measures one named case after another and prints all of them.

    **Returns:** 0, or 1 if there are failures, which are printed behind.
    """
    rows, began = [], time.perf_counter()
    for number, (name, case) in enumerate(cases, start=1):
        seconds = time.perf_counter() - began
        _progress(f"{number} of {len(cases)}: {name}, {seconds:.0f} s")
        rows.append(measure(case))
    _progress("")
    print(shown(header, [r.cells for r in rows], left=left, markdown=markdown))
    failures = [
        f"{', '.join(row.cells[:left])}: {failure}"
        for row in rows
        for failure in row.failures
    ]
    if failures:
        print("\n".join(["FAILED", *failures]), file=sys.stderr)
    return 1 if failures else 0


def shown(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int,
    markdown: bool,
) -> str:
    """Columns, the first few of words and flush left, the others of numbers."""
    if markdown:
        rule = [*["---"] * left, *["---:"] * (len(header) - left)]
        return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if i < left else '>'}{width}}"
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _progress(text: str):
    """On one line of a terminal, each in place of the last."""
    if sys.stderr.isatty():
        print(f"\r{text:79.79}\r", end="", file=sys.stderr, flush=True)
