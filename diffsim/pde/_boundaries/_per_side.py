"""Boundary conditions per side: a pair for each axis."""

from typing import Any

from ._boundary import Periodic


def boundaries_per_side(
    given: Any, ndim: int, *, name: str, kinds: Any, expected: str
) -> tuple[tuple[Any, Any], ...]:
    """One for all sides, or an entry for each axis, one for both sides or a pair.

    `name` is that of the argument, `kinds` what a side may be, `expected` in words. Of
    one axis a pair is its own.
    """
    _check_made(given, name)
    if isinstance(given, kinds):
        given = (given,) * ndim
    if ndim == 1 and isinstance(given, tuple | list) and len(given) == 2:
        given = (given,)
    if not isinstance(given, tuple | list) or len(given) != ndim:
        raise ValueError(
            f"{name} must be one for all sides or a tuple with an entry for each of "
            f"{ndim} axes, each like {expected}, got {given!r:.80}"
            f"{_for_flows(given, name)}"
        )
    pairs = []
    for axis, one in enumerate(given):
        sides = (one, one) if isinstance(one, kinds) else one
        _check_made(one, name)
        if not isinstance(sides, tuple | list) or len(sides) != 2:
            raise ValueError(
                f"{name} of axis {axis} must be one for both sides or a pair, lower "
                f"and upper, each like {expected}, got {one!r:.80}"
                f"{_for_flows(one, name)}"
            )
        _check_pair(axis, sides, name, kinds, expected)
        pairs.append(tuple(sides))
    return tuple(pairs)


def _check_pair(axis: int, sides: Any, name: str, kinds: Any, expected: str):
    for end, side in zip(("lower", "upper"), sides, strict=True):
        _check_made(side, name)
        if not isinstance(side, kinds):
            raise ValueError(
                f"the {end} side of axis {axis} has nothing in {name}: got "
                f"{side!r:.60}, expected {expected}{_for_flows(side, name)}"
            )
    if len({isinstance(side, Periodic) for side in sides}) > 1:
        raise ValueError(f"axis {axis} is periodic at one side: make it so at both")


def _check_made(given: Any, name: str):
    """Refuse the class of a side in place of one that it makes."""
    if isinstance(given, type):
        kind = given.__name__
        raise ValueError(
            f"{name} must be made of objects, got the class {kind}; pde.{kind}(...) "
            "with parentheses makes one"
        )


def _for_flows(given: Any, name: str) -> str:
    """Say where walls of a flow belong, whose classes are above this package."""
    if name == "boundary" and type(given).__name__ in ("NoSlip", "FreeSlip"):
        return "; walls of fluids are for pde.IncompressibleFlow(nu, grid, walls)"
    return ""
