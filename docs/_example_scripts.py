"""Hook of MkDocs: scripts of examples as pages, their cells of Markdown as text.

`<!-- example: NAME -->` on a page becomes the script examples/NAME.py, without its
title, and what it prints, docs/outputs/NAME.txt, as tools/make_example_outputs.py has
written it.
"""

import pathlib
import re


ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^<!-- example: (\w+) -->$", re.M)
CELL = re.compile(r"^# %%(.*)\n", re.M)


def on_page_markdown(markdown: str, **kwargs) -> str:
    """Called by MkDocs for every page."""
    del kwargs
    return EXAMPLE.sub(lambda found: shown(found[1]), markdown)


def shown(name: str) -> str:
    """A script and its output in Markdown."""
    script = (ROOT / "examples" / f"{name}.py").read_text()
    output = (ROOT / "docs" / "outputs" / f"{name}.txt").read_text()
    _, *rest = CELL.split(script)
    cells = [cell(kind, text) for kind, text in zip(rest[::2], rest[1::2], strict=True)]
    where = f"It is `examples/{name}.py`, and prints:"
    return "\n\n".join([*filter(None, cells), where, f"```text\n{output}```"])


def cell(kind: str, text: str) -> str:
    """One cell: text where it is Markdown, else code."""
    text = text.strip("\n")
    if "[markdown]" not in kind:
        return f"```py\n{text}\n```" if text else ""
    lines = [line.removeprefix("#").removeprefix(" ") for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("# "))
