"""The benchmarks run, store their measurements and report missed targets."""

import contextlib
import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]

#: A record as `benchmarks.run` writes it, of a machine that does not exist.
ROW = {
    "what": "run of 5 bodies",
    "value": 0.76,
    "unit": "×",
    "peer": "REBOUND's run",
    "target": 1.0,
    "at_least": False,
    "seconds": 1.5e-3,
    "peer_seconds": 2e-3,
    "error": 7e-12,
    "reference": "REBOUND",
    "compile_seconds": 0.31,
    "memory_bytes": 37096,
    "noise": 0.5,
    "away": 0.01,
    "details": {},
    "met": True,
}
MISSED = ROW | {"what": "direct sum", "target": 2.0, "at_least": True, "met": False}
UNASKED = ROW | {"what": "plain vmap", "target": None, "error": None}
HEAD = {
    "machine": {"processor": "Zilog Z80", "device": "cpu", "cores": 2, "threads": 1},
    "versions": {"python": "3.11.7", "numba": None},
    "effort": {"rounds": 7, "seconds": 10.0, "tiny": False},
}
CASE = {"about": "Five bodies.", "date": "2000-01-01", "rows": [ROW, MISSED, UNASKED]}
RECORD = HEAD | {"cases": {"leapfrog_5_bodies": CASE}}


@pytest.fixture
def benchmarks(monkeypatch):
    """Imports a module of the benchmarks, which are not installed with diffsim."""
    monkeypatch.syspath_prepend(str(REPOSITORY))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.mark.slow
@pytest.mark.about("benchmarks/")
def test_tiny_case_runs_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "benchmarks.run", "--tiny"]
    chosen = ["--only", "direct_sum_4096", "gpu_sweep", "--out", str(tmp_path)]
    chosen += ["--processes", "2"]
    done = subprocess.run(
        [*command, *chosen], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "gpu_sweep: skipped, it needs a GPU" in done.stdout
    (path,) = tmp_path.glob("*.json")
    text = path.read_text()
    assert str(REPOSITORY) not in text and str(tmp_path) not in text
    record = json.loads(text)
    assert record["effort"]["tiny"]
    double, single = record["cases"]["direct_sum_4096"]["rows"][:2]
    slower, faster = double["details"]["in_processes"]
    assert slower <= faster == double["value"]
    assert double["value"] > 0 and double["compile_seconds"] > 0
    # Rounding of sums of 128 terms, in either precision; measured 1e-15 and 3e-7.
    assert double["error"] < 1e-13 and 1e-9 < single["error"] < 1e-5


def device_run(folder, *words):
    """What `python -m benchmarks.device --tiny` writes, in which all is finite."""
    command = [sys.executable, "-m", "benchmarks.device", "--tiny"]
    done = subprocess.run(
        [*command, *words, "--out", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*-device.json")
    text = path.read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert str(REPOSITORY) not in text and str(folder) not in text
    record = json.loads(text)
    assert not record["failed"] and record["effort"]["tiny"]
    return record


def test_device_run_measures_rates_and_errors(tmp_path):
    names = "direct_sum_65536_float64", "lorenz_100000_fixed"
    record = device_run(tmp_path, "--only", *names)
    assert not record["not_run"] and tuple(record["cases"]) == names
    rows = [row for case in record["cases"].values() for row in case["rows"]]
    assert len(rows) == 2 + 3
    for row in rows:
        assert row["seconds"] > 0 and row["value"] > 0
        assert row["details"]["flops_per_second"] > 0
        # Rounding; of ten fixed steps of order five also truncation.
        assert row["error"] < (1e-10 if row["what"].startswith("run") else 1e-13)


@pytest.mark.slow
@pytest.mark.about("benchmarks/")
def test_device_run_goes_through_every_case(benchmarks, tmp_path):
    record = device_run(tmp_path)
    cases = benchmarks("cases._device_rows").CASES
    assert not record["not_run"] and list(record["cases"]) == list(cases)
    for name, case in cases.items():
        assert len(record["cases"][name]["rows"]) == len(case.rows(True)), name
    skipped = device_run(tmp_path, "--minutes", "0")
    assert skipped["not_run"] == list(cases) and not skipped["cases"]


@pytest.mark.slow
@pytest.mark.about("benchmarks/")
def test_device_run_goes_on_after_a_process_that_ended(benchmarks):
    with contextlib.closing(benchmarks("device")._workers(tiny=True)) as workers:
        (answer,) = next(workers).answers("no such case", 100)
        assert answer["failure"].endswith("KeyError: 'no such case'")
        (answer,) = next(workers).answers("head", 1e-3)
        assert answer["failure"] == "stopped after 0 s"
        (answer,) = next(workers).answers("head", 100)
        assert answer["record"]["machine"]["device"] == "cpu"


def test_names_of_cases_are_checked(benchmarks):
    with pytest.raises(SystemExit, match="leapfrog_5_bodies"):
        benchmarks("_session")._chosen(["leapfrog"])


def test_contestants_alternate_and_setup_is_not_timed(benchmarks):
    harness, said = benchmarks("_harness"), []

    def contestant(name):
        def prepare():
            said.append(f"prepare {name}")
            return lambda: said.append(name)

        return prepare

    turns = {name: contestant(name) for name in "ab"}
    times = harness.contest(harness.Effort(rounds=2, seconds=0), **turns)
    # One round more than counted warms the caches.
    assert said == ["prepare a", "a", "prepare b", "b"] * 3
    assert times["a"].rounds == 2 and times["a"].best <= times["a"].median


def test_median_over_processes_is_reported_with_its_range(benchmarks):
    values = 1.6, 1.2, 1.3
    rows = tuple(ROW | {"value": value, "seconds": value} for value in values)
    row = benchmarks("_processes")._middle(rows)
    assert row["value"] == row["seconds"] == 1.3
    assert row["details"] == {"in_processes": [1.2, 1.3, 1.6]}
    assert benchmarks("_tables").measured(row) == "1.3 × (1.2 to 1.6)"


def test_results_file_keeps_cases_measured_with_the_same_versions(benchmarks, tmp_path):
    session = benchmarks("_session")
    session._save(tmp_path, HEAD, {"leapfrog_5_bodies": CASE})
    session._save(tmp_path, HEAD, {"sweep_64x5": CASE})
    path = tmp_path / "zilog-z80.json"
    assert list(json.loads(path.read_text())["cases"]) == [
        "leapfrog_5_bodies",
        "sweep_64x5",
    ]
    session._save(tmp_path, HEAD | {"versions": {}}, {"sweep_64x5": CASE})
    assert list(json.loads(path.read_text())["cases"]) == ["sweep_64x5"]


def test_machine_name_includes_the_xla_flags(benchmarks, monkeypatch):
    """Numbers under other flags are another column in another file."""
    plain = "--xla_cpu_multi_thread_eigen=false"
    monkeypatch.setenv("XLA_FLAGS", plain)
    processor = benchmarks("_machine").machine(True)["processor"]
    monkeypatch.setenv("XLA_FLAGS", f"--xla_a=512 {plain}")
    told = benchmarks("_machine").machine(True)["processor"]
    assert told == f"{processor}, --xla_a=512"


def test_results_of_a_release_of_jax_have_their_own_file(benchmarks, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr("jax.__version__", "0.10.2")
    machine, slug = (getattr(benchmarks("_machine"), x) for x in ("machine", "slug"))
    names = [machine(True, by_release=x)["processor"] for x in (False, True)]
    assert names[1] == f"{names[0]}, JAX 0.10.2"
    assert slug(names[1]) == f"{slug(names[0])}-jax-0-10-2"


def test_compile_phases_exclude_nested_phases(benchmarks, monkeypatch):
    events, now = benchmarks("fresh.compile_events").CompileEvents(), [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    trace, lower, compile_ = (
        f"/jax/core/compile/{name}_duration"
        for name in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
    )
    # Two functions and a program inside of one that is traced from 1 to 8, then it is
    # lowered and compiled.
    ended = [(2, trace, 0.5), (4, trace, 1), (6, compile_, 1.5), (8, trace, 7)]
    for now[0], event, seconds in [*ended, (9, lower, 1), (12, compile_, 3)]:
        events._record(event, seconds, fun_name="f")
    assert events.tracing == 7 - 1.5
    assert events.lowering == 1
    assert events.compiling == 1.5 + 3
    assert events.programs == ["f", "f"]


@pytest.mark.slow
@pytest.mark.about("benchmarks/")
def test_first_result_of_a_fresh_process_matches_plain_jax(benchmarks):
    alternate = benchmarks("cases._fresh_processes").alternate
    (ours,), (by_hand,) = alternate(1, ["ours.ode"], ["by_hand.ode"])
    deviation = benchmarks("_harness").deviation
    # The same steps of the same solver. Outputs by hand are Diffrax's interpolant's,
    # which is 5e-9 off here.
    assert deviation(*map(_arrays, (ours, by_hand))) < 2e-8
    for one in ours, by_hand:
        assert 0 < len(one["programs"]) == one["compilations"]
        assert one["compilations_again"] == 0
        known = one["tracing"] + one["lowering"] + one["compiling"]
        assert 0 < known < one["seconds"]


def _arrays(one):
    return [np.asarray(leaf) for leaf in one["value"]]


def test_failure_in_a_fresh_process_reports_its_cause(benchmarks):
    run_fresh = benchmarks("cases._fresh_processes").run_fresh
    with pytest.raises(RuntimeError, match="no attribute 'orbits'"):
        run_fresh("by_hand.orbits")


def test_summary_lists_first_target_of_each_case_and_all_missed_targets(
    benchmarks, tmp_path
):
    compare = benchmarks("compare")
    (tmp_path / "zilog-z80.json").write_text(json.dumps(RECORD))
    tiny = RECORD | {"effort": HEAD["effort"] | {"tiny": True}}
    (tmp_path / "zilog-z80-tiny.json").write_text(json.dumps(tiny))
    (record,) = compare.read(tmp_path)
    faster = ROW | {"value": 0.5}
    second = ROW | {"what": "second run of 5 bodies"}
    case = CASE | {"rows": [faster, second]}
    other = record | {
        "machine": HEAD["machine"] | {"processor": "Z8000"},
        "cases": {"leapfrog_5_bodies": case},
    }
    assert compare.summary([record, other]).splitlines() == [
        "Targets that are met: 1 of 2 on Zilog Z80; 2 of 2 on Z8000. The first of "
        "every case, and all that are missed:",
        "",
        "| what | target | peer | error reached | Zilog Z80 | Z8000 |",
        "| --- | --- | --- | --- | --- | --- |",
        "| run of 5 bodies | ≤ 1 | REBOUND's run | 7e-12 (REBOUND) | 0.76 × | 0.5 × |",
        "| direct sum | ≥ 2 | REBOUND's run | 7e-12 (REBOUND) | 0.76 × (missed) |  |",
    ]


def test_headlines_span_the_machines_that_ran_by_default(benchmarks):
    compare = benchmarks("compare")
    cases = dict.fromkeys(("leapfrog_5_bodies", "spectral", "gradient_1024"), CASE)
    record = RECORD | {"cases": cases}
    slower = CASE | {"rows": [ROW | {"value": 0.9}]}
    other = RECORD | {"cases": {"leapfrog_5_bodies": slower}}
    machine = HEAD["machine"] | {"processor": "Z8000, --wide"}
    flagged = record | {"machine": machine, "cases": {"spectral": slower}}
    lines = compare.headlines([record, other, flagged]).splitlines()
    assert lines == [
        "- run of 5 bodies: **0.76 to 0.9 ×** the time of REBOUND's run, 7e-12 from "
        "REBOUND",
        *["- run of 5 bodies: **0.76 ×** the time of REBOUND's run, 7e-12 from REBOUND"]
        * 2,
    ]


def test_page_lists_every_row_between_its_markers(benchmarks):
    compare = benchmarks("compare")
    text = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    filled = compare.filled(text, compare.page(RECORD))
    assert "| plain vmap |  | 0.76 × |" in filled
    assert "exceed the best, which stand here, by up to 50 %" in filled
    before, after = text.split(compare.BEGIN)[0], text.split(compare.END)[1]
    assert filled.startswith(before) and filled.endswith(after)
    assert compare.filled(filled, "") == compare.filled(text, "")
