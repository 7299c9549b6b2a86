"""Rows of tests: one for many items that are only read, and which are slow."""

import ast
import functools
import pathlib

import pytest


PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "diffsim"
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file, which all tests of a process share."""
    return ast.parse(path.read_text())


def for_each(items, name=str):
    """Make a test of one item a test of all, which lists every item that fails."""

    def decorate(check):
        def test():
            failures = []
            for item in items:
                try:
                    check(item)
                except AssertionError as error:
                    failures.append(f"{name(item)}: {error}")
            assert not failures, "\n".join(failures)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate


def for_each_file(check):
    """Make a test of one file of the library a test of all."""
    return for_each(FILES, lambda path: str(path.relative_to(PACKAGE)))(check)


def first_plain(values, count=1):
    """Rows of which the first are plain, and all others of the slow tier.

    A tuple holds a value for each of several parameters.
    """
    values = [value if isinstance(value, tuple) else (value,) for value in values]
    slow = [pytest.param(*value, marks=pytest.mark.slow) for value in values[count:]]
    return [pytest.param(*value) for value in values[:count]] + slow
