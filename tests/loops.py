"""One row for what only reads: a loop costs less than hundreds of rows."""

import ast
import functools
import pathlib


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
