"""Rows as lines and as Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any

from ._processes import SPREAD


def line(row: dict[str, Any]) -> str:
    """One row for the terminal."""
    parts = [f"{row['what']}: {measured(row)}"]
    if row["peer"] and row["unit"] == "×":
        parts[0] += f" of {row['peer']}"
    parts += [
        f"{label} {text}"
        for label, text in (
            ("target", target(row)),
            ("time", seconds(row["seconds"])),
            (row["peer"], seconds(row["peer_seconds"])),
            ("error", scientific(row["error"])),
            ("compile", seconds(row["compile_seconds"])),
            ("memory", memory(row["memory_bytes"])),
            ("share", share(row)),
            ("noise", percent(row["noise"])),
            ("core away", percent(row["away"])),
        )
        if text
    ]
    return ", ".join(parts)


def measured(row: dict[str, Any]) -> str:
    """The value with its unit, of several processes all, and whether it missed."""
    value = f"{number(row['value'])} {row['unit']}"
    if spread := row["details"].get(SPREAD):
        value += f" ({number(spread[0])} to {number(spread[-1])})"
    return value if row["met"] else f"{value} (missed)"


def target(row: dict[str, Any]) -> str:
    """The target, in words."""
    if row["target"] is None:
        return ""
    return f"{'≥' if row['at_least'] else '≤'} {number(row['target'])}"


def number(value: float) -> str:
    """Three significant digits, as people write them."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def scientific(value: float | None) -> str:
    """An error."""
    return "" if value is None else f"{value:.0e}"


def error(row: dict[str, Any]) -> str:
    """The error reached, and against what."""
    if row["error"] is None:
        return ""
    return f"{scientific(row['error'])} ({row['reference']})"


def share(row: dict[str, Any]) -> str:
    """Of what the device can do, if that is known."""
    shares = [
        f"{percent(value)} of {name.removeprefix('share_of_').replace('_', ' ')}"
        for name, value in row["details"].items()
        if name.startswith("share_of_") and value is not None
    ]
    return ", ".join(shares)


def percent(value: float | None) -> str:
    """A share."""
    return "" if value is None else f"{100 * value:.0f} %"


def seconds(value: float | None) -> str:
    """A time."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value * 1e6)} µs"


def memory(value: int | None) -> str:
    """Bytes in decimal units."""
    if value is None:
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{value} B"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a vertical bar in a cell would end it."""
    lines = [header, ["---"] * len(header), *rows]
    cells = [[cell.replace("|", "\\|") for cell in one] for one in lines]
    return "\n".join(f"| {' | '.join(one)} |" for one in cells)
