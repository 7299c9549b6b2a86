"""The Python blocks of README and documentation run, each page from top to bottom.

Those of the home page, the tutorials and the page on clusters are run by the build of
the site, which shows their output: `mkdocs build`, the stage `docs` of .ci/run. Those
of the gallery stand each for itself, see tests/test_gallery.py.
"""

import pathlib
import runpy
import sys

import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
DOCS = REPOSITORY / "docs"
BUILD = runpy.run_path(str(DOCS / "_run_page.py"))
blocks, is_executed = BUILD["blocks"], BUILD["is_executed"]
WITH_CODE = [
    page
    for page in PAGES
    if blocks(page.read_text())
    and page.parent.name != "gallery"
    and not (
        page.is_relative_to(DOCS) and is_executed(page.relative_to(DOCS).as_posix())
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=pytest.mark.about(page.relative_to(REPOSITORY).as_posix()),
            id=page.relative_to(REPOSITORY).as_posix(),
        )
        for page in WITH_CODE
    ],
)
def test_examples_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for code in blocks(page.read_text()):
        exec(compile(code, page, "exec"), namespace)
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")  # a page has more than Matplotlib lets stand open
    assert "ds" in namespace, "the page shows diffsim at work"
