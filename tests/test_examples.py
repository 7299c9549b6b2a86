"""The examples are short and end with an assertion; `.ci/run` runs them."""

import ast
import pathlib

import pytest


EXAMPLES = sorted((pathlib.Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_ends_with_an_assertion(path):
    text = path.read_text()
    assert text.count("\n") <= 100
    last = ast.unparse(ast.parse(text).body[-1])
    assert "assert" in last, "the last statement checks a gradient or a parameter"
