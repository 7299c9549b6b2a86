"""Answers of other libraries: readable, with versions, and without NaN."""

import json
import math
import pathlib

import pytest


FOLDER = pathlib.Path(__file__).parents[2] / "tools/peers"
PEERS = (
    *("celerite2", "derivkit", "gaspery", "gradsolve", "gradsolve_sweep"),
    *("iminuit", "lmfit", "pyhf", "radvel", "xsweep"),
)


def numbers(entry):
    """All numbers at any depth."""
    if isinstance(entry, dict):
        entry = list(entry.values())
    if isinstance(entry, list):
        return [number for part in entry for number in numbers(part)]
    return [entry] if isinstance(entry, int | float) else []


@pytest.mark.parametrize("peer", PEERS)
def test_answers_are_finite_and_say_which_versions_gave_them(peer):
    answers = json.loads((FOLDER / f"{peer}.json").read_text(encoding="utf-8"))
    package = peer.removesuffix("_sweep")
    assert {package, "python", "numpy"} <= answers["versions"].keys()
    for name, problem in answers["problems"].items():
        assert "formula" in problem, name
        found = numbers(problem)
        assert found and all(map(math.isfinite, found)), name


def test_every_file_of_answers_is_small_and_has_its_script():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(PEERS)
    for peer in PEERS:
        assert (FOLDER / f"make_{peer}.py").is_file()
        assert (FOLDER / f"{peer}.json").stat().st_size < 60_000
