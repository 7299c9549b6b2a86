"""Tables of what was measured, to read and for the documentation."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._progress import clear_line, progress_text, show_line
from .._text_table import Table


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
        progress = progress_text(f"{number} of {len(cases)}", name, seconds=seconds)
        if sys.stderr.isatty():
            show_line(progress)
        rows.append(measure(case))
        if sys.stderr.isatty():
            clear_line()
        if markdown:
            _print_markdown(rows[-1].cells)
    if not markdown:
        cells = [row.cells for row in rows]
        print(Table(header, cells, align="<" * left + ">").text())
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
