"""Plain text tables of the reports."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns as wide as their widest entry; the first few flush left, others right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            entry.ljust(width) if i < left else entry.rjust(width)
            for i, (entry, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def verdict(passed: bool) -> str:
    """The word for it."""
    return "passed" if passed else "FAILED"
