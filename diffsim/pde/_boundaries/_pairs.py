"""What is given for the sides of a grid, as a pair for each axis."""

from typing import Any

from ._kinds import Periodic


def pairs_of(
    given: Any, ndim: int, *, name: str, kinds: Any, expected: str
) -> tuple[tuple[Any, Any], ...]:
    """One for all sides, or an entry for each axis, one for both sides or a pair.

    `name` is that of the argument, `kinds` what a side may be, `expected` in words. Of
    one axis a pair is its own.
    """
    if isinstance(given, kinds):
        given = (given,) * ndim
    if ndim == 1 and isinstance(given, tuple | list) and len(given) == 2:
        given = (given,)
    if not isinstance(given, tuple | list) or len(given) != ndim:
        raise ValueError(
            f"{name} must be one for all sides or a tuple with an entry for each of "
            f"{ndim} axes, each like {expected}, got {given!r:.80}"
        )
    pairs = []
    for axis, one in enumerate(given):
        sides = (one, one) if isinstance(one, kinds) else one
        if not isinstance(sides, tuple | list) or len(sides) != 2:
            raise ValueError(
                f"{name} of axis {axis} must be one for both sides or a pair, lower "
                f"and upper, each like {expected}, got {one!r:.80}"
            )
        _check_pair(axis, sides, name, kinds, expected)
        pairs.append(tuple(sides))
    return tuple(pairs)


def _check_pair(axis: int, sides: Any, name: str, kinds: Any, expected: str):
    for end, side in zip(("lower", "upper"), sides, strict=True):
        if not isinstance(side, kinds):
            raise ValueError(
                f"the {end} side of axis {axis} has nothing in {name}: got "
                f"{side!r:.60}, expected {expected}"
            )
    if len({isinstance(side, Periodic) for side in sides}) > 1:
        raise ValueError(f"axis {axis} is periodic at one side: make it so at both")
