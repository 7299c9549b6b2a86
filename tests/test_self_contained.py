"""The check that no page of the site loads anything from another host."""

import pathlib
import runpy


DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
loads = runpy.run_path(str(DOCS / "_self_contained.py"))["loads"]


def test_what_a_site_loads_from_elsewhere_is_found():
    script = '<script src="https://cdn.example/x.js">'
    assert loads(f'<p>{script}<a href="https://example.org">', ".html") == [script]
    assert loads("@import url(//fonts.example/x.css)", ".css")
    free = '<link rel="canonical" href="https://here/"><img src="../a.png">'
    assert loads(free, ".html") == []
