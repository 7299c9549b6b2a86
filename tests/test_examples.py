"""The examples are short and end with an assertion; `.ci/run` runs them."""

import ast
import pathlib
import re

import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_ends_with_an_assertion(path):
    text = path.read_text()
    assert text.count("\n") <= 100
    last = ast.unparse(ast.parse(text).body[-1])
    assert "assert" in last, "the last statement checks a gradient or a parameter"


def test_every_example_is_on_the_page_with_what_it_prints():
    page = (REPOSITORY / "docs" / "examples.md").read_text()
    outputs = {path.stem for path in (REPOSITORY / "docs" / "outputs").glob("*.txt")}
    names = {path.stem for path in EXAMPLES}
    assert outputs == names
    assert set(re.findall(r"^<!-- example: (\w+) -->$", page, re.M)) == names
