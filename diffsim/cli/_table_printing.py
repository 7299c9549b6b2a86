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

    Lines of markdown are printed as they come: nothing is lost where it is stopped.

    **Returns:** 0, or 1 if there are failures, which are printed behind.
    """
    rows, began = [], time.perf_counter()
    if markdown:
        _print_markdown(header, ["---"] * left + ["---:"] * (len(header) - left))
    for number, (name, case) in enumerate(cases, start=1):
        seconds = time.perf_counter() - began
        _progress(f"{number} of {len(cases)}: {name}, {seconds:.0f} s")
        rows.append(measure(case))
        if markdown:
            _progress("")
            _print_markdown(rows[-1].cells)
    _progress("")
    if not markdown:
        print(_aligned([header, *(row.cells for row in rows)], left))
    failures = [
        f"{', '.join(row.cells[:left])}: {failure}"
        for row in rows
        for failure in row.failures
    ]
    if failures:
        print("\n".join(["FAILED", *failures]), file=sys.stderr)
    return 1 if failures else 0


def _print_markdown(*lines: Sequence[str]):
    for line in lines:
        print(f"| {' | '.join(line)} |", flush=True)


def _aligned(lines: Sequence[Sequence[str]], left: int) -> str:
    """Columns, the first few of words and flush left, the others of numbers."""
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
