"""The Python blocks of README and documentation run, each page from top to bottom."""

import pathlib
import re

import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_examples_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, namespace = page.read_text(), {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        # Line numbers of a traceback are those of the page.
        above = "\n" * text[: block.start(1)].count("\n")
        exec(compile(above + block[1], page, "exec"), namespace)
    assert "ds" in namespace, "the page shows diffsim at work"
