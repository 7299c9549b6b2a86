"""Which rows of the slow tiers a change makes due, and how long each row takes.

    python tools/test_tiers.py due FOLDER --seconds 1500   # FOLDER/due.txt and others
    python tools/test_tiers.py due FOLDER --all
    python tools/test_tiers.py blame FOLDER REPORT.xml     # whose fault failures are
    python tools/test_tiers.py record REPORT.xml ...       # into tests/durations.json

Due are the slow and release rows of test files that changed, of the test folders of
packages that changed, of all folders where a foundation changed, and an eighth of all
others in turn, in this order, as far as the seconds suffice. `.ci/run` runs them,
CONTRIBUTING.md says what the tiers are. Needs pytest, in the root of a checkout.
"""

import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib
from collections.abc import Iterable
from typing import NamedTuple


DURATIONS = pathlib.Path("tests", "durations.json")
ALL_PASSED = pathlib.Path("tests", "all_passed.txt")
TURNS = 8
#: Rows that take less than this are not in the file of durations, in seconds.
SHORTEST = 0.2
#: Packages on which all others rest; files that every row depends on.
FOUNDATION = {"", "simulations", "implicit"}
SHARED = {"pyproject.toml", "tests/conftest.py"}
NEARNESS = ("left over", "changed", "of changed packages", "of all packages", "in turn")
LEFT_OVER, CHANGED, OF_PACKAGE, OF_ALL, IN_TURN = range(5)


class Row(NamedTuple):
    """A test with its parameters: node ID, marks, and what it is `about`.

    These are files whose code it runs, and folders, which end with "/".
    """

    name: str
    marks: frozenset[str] = frozenset()
    about: frozenset[str] = frozenset()

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]

    @property
    def number(self) -> int:
        """A number by the name alone, the same on every machine."""
        return zlib.crc32(self.name.encode())


def package_of(file: str) -> str:
    """The package of a file of the library or of the tests; "" for what has none.

    Those that begin with "_", and data of tests, are for all packages.
    """
    parts = pathlib.PurePosixPath(file).parts
    shared = len(parts) < 3 or parts[1].startswith(("_", "data_"))
    return "" if shared else parts[1]


def collected() -> list[Row]:
    """All rows of this checkout."""
    import pytest

    rows = []

    class Collector:
        def pytest_collection_finish(self, session):
            for item in session.items:
                marks = frozenset(mark.name for mark in item.iter_markers())
                about = (mark.args for mark in item.iter_markers("about"))
                rows.append(Row(item.nodeid, marks, frozenset().union(*about)))

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        options = ["--collect-only", "-q", "-n0", "-m", ""]
        status = pytest.main(options, plugins=[Collector()])
    if status:
        sys.exit(f"the tests cannot be collected\n{printed.getvalue()[-3000:]}")
    return rows


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], text=True).strip()


def commit(name: str) -> str:
    """The full name of a commit; empty if there is none of that name."""
    words = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def base_commit() -> str:
    """The commit since which changes count; empty if there is none.

    CI_BASE names it; else it is the merge base with the branch of origin, and on that
    branch itself the last commit of which all rows have passed.
    """
    if named := os.environ.get("CI_BASE"):
        return commit(named) or sys.exit(f"CI_BASE is {named!r}, which is no commit")
    words = ["git", "merge-base", "HEAD", "origin/HEAD"]
    # Without the branch, in a shallow clone and of unrelated histories it is empty.
    common = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    if common not in ("", commit("HEAD")):
        return common
    return commit(ALL_PASSED.read_text().split()[0]) if ALL_PASSED.is_file() else ""


def changed_files(base: str) -> set[str]:
    """Files that differ from the base, new ones among them; all if there is none."""
    new = git("ls-files", "-z", "--others", "--exclude-standard")
    # Of a file that was moved both places count.
    diff = ["diff", "--name-only", "--no-renames", "-z", base]
    known = git(*diff) if base else git("ls-files", "-z")
    return set(filter(None, f"{known}\0{new}".split("\0")))


def is_read(file: str) -> bool:
    """Whether rows of other files read it: code and data, but no tests or records."""
    path = pathlib.PurePosixPath(file)
    record = path in (DURATIONS, ALL_PASSED)
    return not (record or path.name.startswith("test_") or path.suffix == ".md")


def nearness(row: Row, changed: set[str], turn: int) -> int | None:
    """How near a row is to a change; None if it is neither near nor in turn."""
    folders = tuple(place for place in row.about if place.endswith("/"))
    if any(f in {row.file} | row.about or f.startswith(folders) for f in changed):
        return CHANGED
    code = [file for file in changed if file.startswith(("diffsim/", "tests/"))]
    code = [file for file in code if is_read(file)]
    packages, package = {package_of(file) for file in code}, package_of(row.file)
    if package and package in packages:
        return OF_PACKAGE
    # Rows beside the folders of packages are about all of them.
    if packages & FOUNDATION or changed & SHARED or (packages and not package):
        return OF_ALL
    return IN_TURN if (row.number - turn) % TURNS == 0 else None


def due(rows: Iterable[Row], changed: set[str], turn: int, left_over: set[str]):
    """How near each row is that is due, the nearest first, and then by their turns."""
    near = {}
    for row in rows:
        if row.marks & {"slow", "release", "optimized"}:
            near[row] = nearness(row, changed, turn)
            near[row] = LEFT_OVER if row.name in left_over else near[row]
    rows = [row for row, rank in near.items() if rank is not None]
    rows.sort(key=lambda row: (near[row], (row.number - turn) % TURNS))
    return {row: near[row] for row in rows}


def durations() -> dict[str, float]:
    """Seconds of every row that takes longer than the shortest, by node ID."""
    files = json.loads(DURATIONS.read_text()) if DURATIONS.is_file() else {}
    return {
        f"{file}::{row}": s for file, rows in files.items() for row, s in rows.items()
    }


def fitting(rows: Iterable[Row], seconds: float) -> list[Row]:
    """The first rows that together take no longer than the seconds, and one at least.

    A row that is longer than what is left of them lets shorter ones pass.
    """
    chosen, known = [], durations()
    for row in rows:
        takes = known.get(row.name, SHORTEST)
        if takes <= seconds or not chosen:
            seconds -= takes
            chosen.append(row)
    return chosen


class Outcome(NamedTuple):
    """A row of a report: its node ID, what it took in seconds, whether it failed."""

    name: str
    seconds: float
    failed: bool


def outcomes(report: pathlib.Path) -> list[Outcome]:
    """The rows of a report in the format of JUnit."""
    rows = []
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        *folders, module = case.attrib["classname"].split(".")
        name = f"{'/'.join([*folders, module])}.py::{case.attrib['name']}"
        failed = case.find("failure") is not None or case.find("error") is not None
        rows.append(Outcome(name, float(case.attrib["time"]), failed))
    return rows


def pace(report: pathlib.Path) -> float:
    """How many times longer the rows of a report took here than on record.

    Where they took less they may have been compiled before, which others may not.
    """
    recorded = durations()
    rows = [row for row in outcomes(report) if row.name in recorded]
    usual = sum(recorded[row.name] for row in rows)
    here = sum(row.seconds for row in rows)
    return max(1.0, here / usual) if usual else 1.0


def write_due(folder: pathlib.Path, base: str, seconds: float):
    """Write which rows run, by how they are compiled, and which are left over."""
    left, turn = folder / "left_over.txt", int(git("rev-list", "--count", "HEAD"))
    left_over = set(left.read_text().splitlines()) if left.is_file() else set()
    near = due(collected(), changed_files(base), turn, left_over)
    chosen = fitting(near, seconds)
    lists = {
        "due": [row for row in chosen if "optimized" not in row.marks],
        "due_optimized": [row for row in chosen if "optimized" in row.marks],
        "of_others": [row for row in chosen if near[row] in (IN_TURN, LEFT_OVER)],
        "left_over": [row for row in near if row not in set(chosen)],
    }
    for name, rows in lists.items():
        (folder / f"{name}.txt").write_text("".join(f"{row.name}\n" for row in rows))
    counts = [f"{list(near.values()).count(i)} {x}" for i, x in enumerate(NEARNESS)]
    print(f"{len(near)} rows are due since {base[:9] or 'ever'}: {', '.join(counts)}")
    if more := len(near) - len(chosen):
        print(f"{more} do not fit into the time and are due first next time")
    if git("rev-parse", "--is-shallow-repository") == "true":
        print("of a shallow clone the same eighth is in turn every time")


def blame(folder: pathlib.Path, report: pathlib.Path):
    """Add failed rows to those left over; print which fail on the base as well.

    Those are asked that another change made due. Rows run there as they do here.
    """
    if not report.is_file():
        return
    failed = [row.name for row in outcomes(report) if row.failed]
    left = folder / "left_over.txt"
    left.write_text("".join(f"{name}\n" for name in failed) + left.read_text())
    of_others = set((folder / "of_others.txt").read_text().splitlines())
    failed = [name for name in failed if name in of_others]
    if not failed or not (base := base_commit()):
        return
    with tempfile.TemporaryDirectory() as parent:
        tree = pathlib.Path(parent, "base")
        git("worktree", "add", "--detach", str(tree), base)
        try:
            for name in failed:
                command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "", name]
                status = subprocess.run(command, cwd=tree, stdout=subprocess.DEVNULL)
                # 1 is a failed test; others say that there is no such row.
                if status.returncode == 1:
                    print(f"not of this change: {name} fails on {base[:9]} as well")
        finally:
            git("worktree", "remove", "--force", str(tree))


def record(reports: list[pathlib.Path]):
    """Write the seconds of all rows of the reports, and no others."""
    seconds: dict[str, float] = {}
    for row in (row for report in reports for row in outcomes(report)):
        # Some run twice, compiled in two ways.
        seconds[row.name] = max(row.seconds, seconds.get(row.name, 0.0))
    files: dict[str, dict[str, float]] = {}
    for name, time in sorted(seconds.items()):
        file, _, test = name.partition("::")
        if time >= SHORTEST:
            files.setdefault(file, {})[test] = round(time, 1)
    DURATIONS.write_text(json.dumps(files, indent=0, ensure_ascii=False) + "\n")


def main(words: list[str] | None = None):
    parser = argparse.ArgumentParser(description="Choose and time rows of the tests.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("due", help="choose the slow rows that a change makes due")
    verb.add_argument("folder", type=pathlib.Path)
    verb.add_argument("--all", action="store_true", help="every row, however long")
    verb.add_argument(
        "--seconds", type=float, default=math.inf, help="what they may take together"
    )
    verb.add_argument("--plain", type=pathlib.Path, help="a report, for the pace here")
    verb = verbs.add_parser("blame", help="say which failures are not of this change")
    verb.add_argument("folder", type=pathlib.Path)
    verb.add_argument("report", type=pathlib.Path)
    verb = verbs.add_parser("record", help="write tests/durations.json")
    verb.add_argument("reports", type=pathlib.Path, nargs="+")
    given = parser.parse_args(words)
    if given.verb == "due" and given.all:
        write_due(given.folder, "", math.inf)
    elif given.verb == "due":
        slower = pace(given.plain) if given.plain else 1.0
        write_due(given.folder, base_commit(), given.seconds / slower)
    elif given.verb == "blame":
        blame(given.folder, given.report)
    else:
        record(given.reports)


if __name__ == "__main__":
    main()
