"""The examples run as they stand and prove something at the end."""

import ast
import pathlib
import subprocess
import sys

import pytest


EXAMPLES = sorted((pathlib.Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_ends_with_a_check(path):
    text = path.read_text()
    assert text.count("\n") <= 100
    last = ast.unparse(ast.parse(text).body[-1])
    assert "assert" in last, "the last statement checks a gradient or a parameter"


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    command = [sys.executable, str(path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
