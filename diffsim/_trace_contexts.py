"""Contexts that change what is traced inside them, and are entered again for it."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar


_Traced = TypeVar("_Traced")


class Surrounding(NamedTuple):
    """A context: whether this is inside it, a way in, and what it takes note of.

    - `is_inside()`: whether it is in force.
    - `enter(anew)`: enters it; what it gives is the list of its notes. `anew` says that
        nothing which was compiled in it before may be used.
    - `note(count)`: makes as many notes in the one in force.
    """

    is_inside: Callable[[], bool]
    enter: Callable[[bool], AbstractContextManager[Any]]
    note: Callable[[int], None] | None = None


#: All there are.
SURROUNDINGS: list[Surrounding] = []


def surroundings() -> tuple[bool, ...]:
    """Which contexts are in force."""
    return tuple(one.is_inside() for one in SURROUNDINGS)


def traced_inside(
    by: tuple[bool, ...], trace: Callable[[], _Traced]
) -> tuple[_Traced, tuple[int, ...]]:
    """The result of `trace` in these contexts, and how many notes each has made."""
    traced, notes = _traced_in(by, trace, anew=False)
    # JAX makes no notes of what it has traced before, in a compiled function.
    if any(notes) or not any(
        inside and one.note for inside, one in zip(by, SURROUNDINGS, strict=True)
    ):
        return traced, notes
    again, notes = _traced_in(by, trace, anew=True)
    return (again if any(notes) else traced), notes


def _traced_in(
    by: tuple[bool, ...], trace: Callable[[], _Traced], *, anew: bool
) -> tuple[_Traced, tuple[int, ...]]:
    with contextlib.ExitStack() as stack:
        entered = [
            stack.enter_context(one.enter(anew)) if inside else None
            for one, inside in zip(SURROUNDINGS, by, strict=True)
        ]
        traced = trace()
    return traced, tuple(len(made or ()) for made in entered)


def note(counts: tuple[int, ...]):
    """Make the notes that were made where a function was traced."""
    for one, count in zip(SURROUNDINGS, counts, strict=True):
        if count and one.note:
            one.note(count)
