"""What an argument chooses, an object of this package, or its default."""

from typing import Any, TypeVar

from .._checks import check_kind


_Kind = TypeVar("_Kind")


def chosen(name: str, given: Any, kind: type[_Kind], *, default: _Kind) -> _Kind:
    """`given`, an object of this kind, or the default where it is None."""
    if given is None:
        return default
    check_kind(name, given, kind, f"pde.{type(default).__name__}()")
    return given
