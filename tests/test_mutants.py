"""The table of mutants follows the code: each breaks one rule that is there."""

import ast
import pathlib
import re
import runpy

import pytest


ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = runpy.run_path(str(ROOT / "tools" / "mutant_table.py"))
MUTANTS = TABLE["MUTANTS"]
PACKAGES = {
    path.name
    for path in (ROOT / "diffsim").iterdir()
    if (path / "__init__.py").exists() and not path.name.startswith("_")
}


@pytest.fixture
def runner(monkeypatch):
    """`tools/mutants.py`, which finds its table beside it."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return runpy.run_path(str(ROOT / "tools" / "mutants.py"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_mutant_applies_once_and_is_python(mutant):
    text = (ROOT / mutant.file).read_text()
    broken = TABLE["mutated"](mutant, text)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text))


def test_text_that_is_not_there_once_is_refused():
    mutant = MUTANTS[0]
    for text in ("", 2 * mutant.old):
        with pytest.raises(
            ValueError, match=rf"^{mutant.name}: .* {len(text) and 2} t"
        ):
            TABLE["mutated"](mutant, text)


def test_names_are_unique_words():
    names = [one.name for one in MUTANTS]
    assert len(set(names)) == len(names) >= 40
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) for name in names)


def test_every_package_and_the_foundation_have_a_mutant():
    assert {TABLE["package_of"](one) for one in MUTANTS} == PACKAGES | {None}


def test_expected_rows_are_in_a_file_of_tests():
    for mutant in MUTANTS:
        assert mutant.caught_by is None or (ROOT / mutant.caught_by).is_file()


def test_rows_of_the_package_come_before_those_of_its_importers(runner):
    known = {one.name: one for one in MUTANTS}
    first, second, *others = runner["paths_of_tests"](known["kepler-jvp-without-time"])
    assert first == ["tests/nbody/test_kepler_drift.py"]
    assert second == ["tests/nbody", f"--ignore={first[0]}"]
    assert {paths[0] for paths in others} == {
        f"tests/{name}" for name in ("plots", "problems", "cli")
    }


def test_rows_of_the_foundation_are_those_of_all_packages(runner):
    known = {one.name: one for one in MUTANTS}
    first, second, *others = runner["paths_of_tests"](known["nan-is-zero-to-max-norm"])
    assert first == ["tests/test_norms.py"]
    assert "tests/test_primitives.py" in second
    # Where a mutant is applied the table does not fit, which says nothing of it.
    assert not {"tests/test_norms.py", "tests/test_mutants.py"} & set(second)
    assert {paths[0] for paths in others} == {f"tests/{name}" for name in PACKAGES}
