"""Tables of what was measured, to read and for the documentation."""

import sys
from collections.abc import Sequence


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


def progress(text: str):
    """On one line of a terminal, each in place of the last."""
    if sys.stderr.isatty():
        print(f"\r{text:79.79}\r", end="", file=sys.stderr, flush=True)
