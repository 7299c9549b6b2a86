"""The runner of the site's pages shows what a block prints, returns and draws."""

import pathlib
import runpy
import subprocess
import sys

import pytest


DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
RUN_PAGE = runpy.run_path(str(DOCS / "_run_page.py"))
run_block = RUN_PAGE["run_block"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_block_shows_what_it_prints_and_the_value_of_its_last_line():
    namespace = {}
    run_block("a = 2", "page", namespace)
    shown = run_block("print('a is', a)\na + 1", "page", namespace)
    assert shown == {"printed": "a is 2\n", "pictures": [], "text": "3"}


@pytest.mark.parametrize("code", ["", "# only a comment", "a = 2", "None"])
def test_block_without_a_value_shows_nothing(code):
    assert run_block(code, "page", {}) == {"printed": "", "pictures": []}


def test_value_with_a_representation_in_html_is_shown_by_it():
    class Fit:
        def _repr_html_(self):
            return "<b>fit</b>"

    shown = run_block("Fit()", "page", {"Fit": Fit})
    assert shown["html"] == "<b>fit</b>"
    assert "text" not in shown


def test_figures_are_saved_with_their_words_and_hide_the_last_value():
    code = (
        "from matplotlib import pyplot\n"
        "_, axes = pyplot.subplots(figsize=(4, 3))\n"
        "axes.set(title='Orbit', xlabel='x / au')\n"
        "axes.set_ylabel('y / au')"
    )
    pytest.importorskip("matplotlib").use("Agg")
    shown = run_block(code, "page", {}, figures=2)
    alt = "Figure: Orbit, x / au, y / au"
    assert shown == {
        "printed": "",
        "pictures": [{"file": "figure-3.png", "alt": alt, "width": 384}],
    }
    png = pathlib.Path("figure-3.png").read_bytes()
    assert int.from_bytes(png[16:20]) == 2 * 384  # the width in the header


def test_figure_is_described_by_its_name_where_it_has_one():
    pytest.importorskip("matplotlib").use("Agg")
    code = "from matplotlib import pyplot\npyplot.figure('Orbit of b')"
    (picture,) = run_block(code, "page", {})["pictures"]
    assert picture["alt"] == "Orbit of b"


def test_images_that_a_block_saves_are_shown():
    code = "import pathlib\npathlib.Path('hot_plate.gif').write_bytes(b'')"
    shown = run_block(code, "page", {})
    assert shown["pictures"] == [{"file": "hot_plate.gif", "alt": "hot plate"}]


@pytest.mark.parametrize("line", ["1 / 0", "1 +", "raise SystemExit"])
def test_error_names_the_page_and_its_line(tmp_path, line):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```python\na = 1\n```\n\n```python\na\n{line}\n```\n")
    command = [sys.executable, DOCS / "_run_page.py", page, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(f"{page}, line 9: ")
    assert "_run_page.py" not in done.stderr
