"""The line on stderr that fits and sweeps show while they go."""

import sys


def show_line(text: str, *, end: str = ""):
    """Write `text` over what the line held; `end` a newline where it is the last."""
    print(f"\r{text:79}", end=end, file=sys.stderr, flush=True)
