"""Names of bodies and test particles, which paths use as indices."""

import re
from collections.abc import Sequence
from typing import Any


#: What a path reads as an index of an axis: 4, -1, 1:, ::2 and the * of a pattern.
_AXIS = r"\s*(?:[-+]?\d[\d_]*|[-+\d_\s]*:[-+\d_\s:]*|\*)\s*"
_INDEX = re.compile(rf"{_AXIS}(?:,{_AXIS})*")

#: Brackets that close in order, at most one pair within another.
_BRACKETS = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])*")


def checked_names(names: Any, count: int) -> tuple[str, ...] | None:
    """One name a body, each fit for a path; None where there are none."""
    if names is None:
        return None
    names = tuple(names)
    for name in names:
        _check_name(name)
    names = tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"names must be one a body, got {len(names)} for {count}")
    check_different(names)
    return names


def check_different(names: Sequence[str], whose: str = ""):
    """Refuse a name that stands twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"names{whose} must differ, got {', '.join(repeated)} more than once"
        )


def _check_name(name: Any):
    if not isinstance(name, str):
        raise ValueError(
            f"names must be strings, got {name!r:.60}, which a path would take for an "
            f"index; write {f'body {name}'!r:.60}"
        )
    if _INDEX.fullmatch(name.strip()):
        raise ValueError(
            f"names must not read as an index or a slice, got {name!r}: a path "
            f"could mean either; write {f'asteroid {name.strip()}'!r}"
        )
    if not name.strip() or not _BRACKETS.fullmatch(name):
        raise ValueError(
            "names must have a letter, and brackets that close, at most one pair "
            f"within another, got {name!r}, which no path could name"
        )
