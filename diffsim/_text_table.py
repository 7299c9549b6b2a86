"""Tables in text and HTML, and representations that are made of them."""

import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax

from ._validation import compile_time_eval, is_traced


#: Rows of a table, or of a list, that a representation shows.
MOST_ROWS = 20
#: Lines of a tree of which no table can be made: as many as our classes have fields.
_MOST_LINES = 40


class Table(NamedTuple):
    """Columns under a header.

    - `header`: a word a column, or nothing.
    - `align`: how columns are flush, "<" left and ">" right, a character each; the last
        one stands for all further columns.
    - `indent`: what text begins every line with.
    - `more`: how many rows were left out.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = "<>"
    indent: str = ""
    more: int = 0

    def text(self) -> str:
        """Lines, of columns as wide as their widest entry."""
        lines = [self.header, *self.rows] if self.header else list(self.rows)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            self.indent
            + "  ".join(
                f"{entry:{self._side(i)}{width}}"
                for i, (entry, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        left_out = [f"{self.indent}{and_more(self.more)}"] if self.more else []
        return "\n".join([*aligned, *left_out])

    def html(self) -> str:
        """The same as a `<table>`."""
        head = f"<thead>{self._row('th', self.header)}</thead>" if self.header else ""
        body = "".join(self._row("td", row) for row in self.rows)
        below = f"<p>{html.escape(and_more(self.more))}</p>" if self.more else ""
        return f"<table>{head}<tbody>{body}</tbody></table>{below}"

    def _row(self, tag: str, entries: Sequence[str]) -> str:
        sides = {"<": "left", ">": "right"}
        cells = "".join(
            f'<{tag} style="text-align: {sides[self._side(i)]}">'
            f"{html.escape(entry)}</{tag}>"
            for i, entry in enumerate(entries)
        )
        return f"<tr>{cells}</tr>"

    def _side(self, column: int) -> str:
        return self.align[min(column, len(self.align) - 1)]


#: Parts of a representation: lines of text, and tables.
Block = str | Table


def and_more(count: int) -> str:
    """The line that stands for `count` rows."""
    return f"… and {count} more"


def first_lines(text: str, most: int = MOST_ROWS) -> str:
    """The text, of a long one the beginning and how much was left out."""
    lines = text.splitlines()
    if len(lines) <= most:
        return text
    return "\n".join([*lines[:most], and_more(len(lines) - most)])


def verdict(passed: bool) -> str:
    """The word for it."""
    return "passed" if passed else "FAILED"


def text_representation(thing: Any, describe: Callable[[Any], Sequence[Block]]) -> str:
    """`describe(thing)` as text, for `__repr__`."""
    return _represent(thing, describe, _text_of)


def html_representation(thing: Any, describe: Callable[[Any], Sequence[Block]]) -> str:
    """`describe(thing)` as HTML, for the `_repr_html_` that notebooks call."""
    return _represent(thing, describe, _html_of)


def _represent(
    thing: Any,
    describe: Callable[[Any], Sequence[Block]],
    write: Callable[[Sequence[Block]], str],
) -> str:
    """The description, or the tree where it cannot be described."""
    if all(map(_is_known, jax.tree.leaves(thing))):
        try:
            with compile_time_eval():
                return write(describe(thing))
        # Batches, and whatever else a tree may hold in the place of our arrays: who
        # looks at it in a debugger must not be shown another error instead.
        except Exception:
            pass
    return write([first_lines(eqx.tree_pformat(thing), _MOST_LINES)])


def _is_known(leaf: Any) -> bool:
    return not is_traced(leaf) and not isinstance(leaf, jax.ShapeDtypeStruct)


def _text_of(blocks: Sequence[Block]) -> str:
    return "\n".join(x if isinstance(x, str) else x.text() for x in blocks if x)


def _html_of(blocks: Sequence[Block]) -> str:
    parts = [
        f"<pre>{html.escape(x)}</pre>" if isinstance(x, str) else x.html()
        for x in blocks
        if x
    ]
    return f"<div>{''.join(parts)}</div>"
