"""The tests that are marked `gpu`, run by pytest in a process of their own."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ._harness import Row


_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
#: Seconds after which tests that are left are not run.
_LIMIT = 90
#: Compiling keeps one core each busy.
_WORKERS = 6
_OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED)\b")
_TEST = re.compile(r"tests/\S+\.py::\S+(?: \S+\])?")


def marked_tests(tiny: bool) -> dict[str, Callable[[], Row]]:
    """One row; `tiny` collects the tests of one file."""
    return {"tests": lambda: _collected() if tiny else _run()}


def _run() -> Row:
    start = time.perf_counter()
    workers = str(min(_WORKERS, os.cpu_count() or 1))
    several = importlib.util.find_spec("xdist") is not None
    options = ["-n", workers, "--dist", "worksteal"] if several else []
    output, remark = _pytest(_files(), *options, "-v", "-rN", "--tb=short")
    outcomes: dict[str, list[str]] = {}
    for line in output.splitlines():
        outcome, test = _OUTCOME.search(line), _TEST.search(line)
        if outcome and test:
            outcomes.setdefault(outcome[1].lower(), []).append(test[0])
    if not outcomes:
        raise RuntimeError(f"pytest ran no test: {output[-400:]}")
    ended = sum(map(len, outcomes.values()))
    return Row(
        f"tests marked `gpu` that pass, of {ended}{remark}",
        len(outcomes.get("passed", ())),
        unit="tests",
        seconds=time.perf_counter() - start,
        details={
            "others": {k: tests for k, tests in outcomes.items() if k != "passed"},
            "reasons": re.findall(r"^E   .+", output, re.M)[:40],
        },
    )


def _collected() -> Row:
    output, _ = _pytest(_files()[:1], "--collect-only", "-q")
    return Row(
        "tests marked `gpu` in one file", len(_TEST.findall(output)), unit="tests"
    )


def _files() -> list[str]:
    """Those with marked tests: to import all others would take a minute."""
    return [
        str(path.relative_to(_REPOSITORY))
        for path in sorted((_REPOSITORY / "tests").rglob("test_*.py"))
        if "pytest.mark.gpu" in path.read_text()
    ]


def _pytest(files: list[str], *options: str) -> tuple[str, str]:
    """What it prints, and a remark if it was ended before it was done."""
    if importlib.util.find_spec("pytest") is None:
        raise ModuleNotFoundError("the tests need pytest, which is not installed")
    # pyproject.toml's options take pytest-xdist for granted, checks of annotations take
    # Beartype, and the flags of tests are those of a CPU. Whatever pytest has buffered
    # is lost when it is ended.
    plain = ["-m", "gpu", "-o", "addopts=", "--import-mode=importlib"]
    settings = {"DIFFSIM_UNCHECKED": "1", "PYTHONUNBUFFERED": "1"}
    settings["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *files, *plain, *options],
        cwd=_REPOSITORY,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=_LIMIT)[0], ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the workers of pytest-xdist as well
        return process.communicate()[0], f" in {_LIMIT} s, when others were not done"
