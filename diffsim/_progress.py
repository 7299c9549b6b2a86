"""Progress lines: what fits, sweeps and commands show while they go."""

import sys
from typing import Any


_WIDTH = 79


def progress_text(act: str, *parts: str, seconds: float | None = None) -> str:
    """`act: part, part, 3 s`, without the parts that are empty."""
    elapsed = "" if seconds is None else f"{seconds:.0f} s"
    return f"{act}: {', '.join(filter(None, (*parts, elapsed)))}"


def show_line(text: str, *, end: str = "", stream: Any = None):
    """Write `text` over what the line held; `end` a newline where it is the last.

    `stream` is stderr where none is given.
    """
    line = f"\r{text:{_WIDTH}.{_WIDTH}}"
    print(line, end=end, file=sys.stderr if stream is None else stream, flush=True)


def clear_line(*, stream: Any = None):
    """Wipe what the line held."""
    show_line("", end="\r", stream=stream)
