"""Names of variants, and the sentence for one that is not there."""

from collections.abc import Iterable
from typing import Any


def check_choice(name: str, given: Any, choices: Iterable[Any]):
    """Refuse what is not among the `choices` of the argument `name`."""
    choices = tuple(choices)
    # True is 1 to a dictionary, and an array no key at all.
    known = isinstance(given, str | int | tuple) and not isinstance(given, bool)
    if known and given in choices:
        return
    listed = ", ".join(map(repr, choices[:-1]))
    raise ValueError(f"{name} must be {listed} or {choices[-1]!r}, got {given!r:.60}")
