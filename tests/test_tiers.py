"""Slow rows run when a change is near them, and all of them in turn; budgets hold."""

import itertools
import pathlib
import runpy
import types

import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TIERS = types.SimpleNamespace(
    **runpy.run_path(str(REPOSITORY / "tools" / "test_tiers.py"))
)
SLOW = frozenset({"slow"})
BODIES = TIERS.Row("tests/nbody/test_bodies.py::test_a[x]", SLOW)
HEAT = TIERS.Row("tests/pde/test_heat.py::test_b", frozenset({"release"}))
PAGE = TIERS.Row("tests/test_docs.py::test_c[faq]", SLOW, frozenset({"docs/faq.md"}))
DRAWN = TIERS.Row("tests/test_gallery.py::test_e", SLOW, frozenset({"tools/draw/"}))
PLAIN = TIERS.Row("tests/pde/test_heat.py::test_d")
ROWS = [HEAT, PAGE, BODIES, DRAWN, PLAIN]
EVERY_ONE = dict.fromkeys(ROWS[:-1], TIERS.OF_ALL)
#: Rows of no package.
BESIDE = dict.fromkeys([PAGE, DRAWN], TIERS.OF_ALL)
#: Seconds of a tier's rows together and of any of them, one after the other, cold.
BUDGETS = {"plain": (1050, 8), "slow": (4500, 60), "release": (1800, 900)}


def is_turn_of(turn, row):
    return TIERS.nearness(row, set(), turn) == TIERS.IN_TURN


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("tests/pde/test_heat.py", {HEAT: TIERS.CHANGED}),
        ("docs/faq.md", {PAGE: TIERS.CHANGED}),
        ("diffsim/pde/_grid.py", {HEAT: TIERS.OF_PACKAGE, **BESIDE}),
        ("tests/nbody/tables.py", {BODIES: TIERS.OF_PACKAGE, **BESIDE}),
        ("diffsim/_jit/_key.py", EVERY_ONE),
        ("tests/data_pde/a.json", EVERY_ONE),
        ("diffsim/implicit/_root.py", EVERY_ONE),
        ("diffsim/simulations/_method.py", EVERY_ONE),
        ("pyproject.toml", EVERY_ONE),
        ("diffsim/pde/data.npz", {HEAT: TIERS.OF_PACKAGE, **BESIDE}),
        ("tools/draw/line.py", {DRAWN: TIERS.CHANGED}),
        ("tests/durations.json", {}),
        ("README.md", {}),
    ],
)
def test_rows_near_a_change_are_due(changed, expected):
    turn = next(t for t in range(8) if not any(is_turn_of(t, row) for row in ROWS))
    assert TIERS.due(ROWS, {changed}, turn, set()) == expected


def test_every_slow_row_is_due_in_one_of_eight_turns():
    turns = [TIERS.due(ROWS, set(), turn, set()) for turn in range(21, 29)]
    together = list(itertools.chain(*turns))
    assert sorted(together) == sorted(EVERY_ONE)


def test_rows_left_over_come_first_and_the_nearest_next():
    changed = {"tests/pde/test_heat.py", "diffsim/implicit/_root.py"}
    near = TIERS.due(ROWS, changed, 0, {BODIES.name})
    assert list(near)[:2] == [BODIES, HEAT] and set(list(near)[2:]) == {PAGE, DRAWN}


def test_rows_are_taken_as_long_as_the_time_suffices(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    names = [f"tests/test_a.py::test_{i}" for i in range(3)]
    cases = "".join(
        f'<testcase classname="tests.test_a" name="test_{i}" time="{i + 1}"/>'
        for i in range(3)
    )
    pathlib.Path("tests/test_a.py").touch()
    pathlib.Path("report.xml").write_text(f"<testsuite>{cases}</testsuite>")
    TIERS.record([pathlib.Path("report.xml")])
    assert TIERS.durations() == dict(zip(names, (1.0, 2.0, 3.0), strict=True))
    rows = [TIERS.Row(name) for name in names]
    assert TIERS.fitting(rows, 3.5) == rows[:2]
    assert TIERS.fitting(rows[::-1], 4.5) == [rows[2], rows[0]]
    assert TIERS.fitting(rows[::-1], 0) == rows[2:]
    assert TIERS.pace(pathlib.Path("report.xml")) == 1


def test_tiers_keep_within_their_budgets(every_row):
    """By the recorded seconds; nothing is timed here."""
    recorded = TIERS.durations()
    seconds = {tier: [] for tier in BUDGETS}
    for item in every_row:
        marks = {mark.name for mark in item.iter_markers()}
        tier = next((t for t in ("release", "slow") if t in marks), "plain")
        seconds[tier].append((recorded.get(item.nodeid, 0.0), item.nodeid))
    for tier, (together, alone) in BUDGETS.items():
        assert sum(time for time, _ in seconds[tier]) <= together, tier
        assert max(seconds[tier], default=(0, ""))[0] <= alone, max(seconds[tier])
