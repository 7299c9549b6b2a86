"""Break one rule of the library at a time, and say which row of the tests notices.

`python tools/mutants.py` tries all rules of `tools/mutant_table.py`, and
`python tools/mutants.py 'kepler-*'` those of these names. Each is broken in a copy of
the tracked files, as they are on the disk, and the plain rows run there, up to the
first that fails: those of the file that the table expects to notice, then those of the
package and of the packages that import it; of the foundation those of `tests/` itself,
then all. A row that fails without the mutant as well has caught nothing. A mutant that
no row catches has survived, and exits with 1.

JAX_COMPILATION_CACHE_DIR names the folder of compiled programs, which all mutants
share; without it one among the temporary files of the system is kept.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from mutant_table import MUTANTS, Mutant, mutated, package_of


ROOT = pathlib.Path(__file__).resolve().parents[1]
# Tests of the structure share tables with others.
sys.path.append(str(ROOT / "tests"))
#: Its rows compare the table with the code, and fail wherever a mutant is applied.
_OF_THE_TABLE = "tests/test_mutants.py"
#: What pytest says of rows that failed, and of files that could not be read.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", re.M)
#: Exit codes of pytest: all rows passed, there were none, and it is itself at fault, as
#: it is where a signal ended it.
_PASSED, _NO_ROWS, _OF_PYTEST = 0, 5, (3, 4)
CAUGHT, SURVIVED, TIMED_OUT = "caught", "survived", "timed out"


class Outcome(NamedTuple):
    """What became of a mutant: `status`, and the row of the tests that caught it."""

    status: str
    row: str | None = None
    seconds: float = 0.0

    def line(self, name: str) -> str:
        """Return the line that is printed."""
        status = self.status if self.status == CAUGHT else self.status.upper()
        row = f", by {self.row or 'what is no row'}" if self.status == CAUGHT else ""
        return f"{name}: {status} after {self.seconds:.0f} s{row}"


def paths_of_tests(mutant: Mutant) -> Iterator[list[str]]:
    """Yield what is handed to pytest, run by run, until one of them catches it."""
    without = []
    if mutant.caught_by is not None:
        yield [mutant.caught_by]
        without = [f"--ignore={mutant.caught_by}"]
    table = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))["MAY_IMPORT"]
    package, done = package_of(mutant), {_OF_THE_TABLE, mutant.caught_by}
    if package is None:
        own = (ROOT / "tests").glob("test_*.py")
        names = sorted(path.relative_to(ROOT).as_posix() for path in own)
        yield [name for name in names if name not in done]
        packages = list(table)
    else:
        importers = [
            name for name, may_import in table.items() if package in may_import
        ]
        packages = list(dict.fromkeys([package, *importers]))
    for name in packages:
        if (ROOT / "tests" / name).is_dir():
            yield [f"tests/{name}", *without]


def pytest_collection_finish(session):
    """Refuse to run rows that would import another diffsim than that of their copy.

    pytest calls it, in every worker: this file is a plugin of the runs that it starts.
    """
    root, found = session.config.rootpath, importlib.util.find_spec("diffsim")
    if found is None or root not in pathlib.Path(str(found.origin)).parents:
        raise RuntimeError(f"diffsim must be that of {root}, got {found}")


class Trial:
    """Two copies of the tracked files: `broken` holds the mutant, `whole` none."""

    def __init__(self, folder: pathlib.Path, workers: str, timeout: float):
        # Resolved, as pytest and Python name files.
        self.broken, self.whole = (folder.resolve() / n for n in ("broken", "whole"))
        self.workers, self.timeout = workers, timeout
        #: Rows that fail without a mutant.
        self.failing: set[str] = set()
        listed = ["git", "ls-files", "-z"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, names.decode().split("\0")):
            # Those that were deleted are tracked until the next commit.
            if (ROOT / name).exists():
                for copy in (self.broken, self.whole):
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, copy / name)

    def outcome(self, mutant: Mutant) -> Outcome:
        """Break the rule in `broken`, look which row notices, and mend it again."""
        text, begun = (self.whole / mutant.file).read_text(), time.monotonic()
        self._write(mutant.file, mutated(mutant, text))
        try:
            found = Outcome(SURVIVED)
            for paths in paths_of_tests(mutant):
                found = self._first_failure(paths)
                if found.status != SURVIVED:
                    break
        finally:
            self._write(mutant.file, text)
        return found._replace(seconds=time.monotonic() - begun)

    def _write(self, name: str, text: str):
        file = self.broken / name
        file.write_text(text)
        # Python recognizes what it has compiled by its length and the second.
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()

    def _first_failure(self, paths: list[str]) -> Outcome:
        """Return the first failure that is owed to the mutant."""
        while True:
            found = self._run(self.broken, [f"-n{self.workers}", *paths])
            if found.status != CAUGHT or found.row is None:
                return found
            if self._run(self.whole, ["-n0", found.row]).status == SURVIVED:
                return found
            self.failing.add(found.row)

    def _run(self, copy: pathlib.Path, options: list[str]) -> Outcome:
        """Run plain rows in a copy, up to the first that fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-p", pathlib.Path(__file__).stem, *options]
        command += [f"--deselect={row}" for row in sorted(self.failing)]
        running = subprocess.Popen(
            command,
            cwd=copy,
            env=_environment(copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = running.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return Outcome(TIMED_OUT)
        finally:
            if running.poll() is None:
                # With its workers, and with what rows have started.
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        if running.returncode in (_PASSED, _NO_ROWS):
            return Outcome(SURVIVED)
        if running.returncode in _OF_PYTEST or running.returncode < 0:
            sys.exit(f"{' '.join(command)} did not run:\n{said[-3000:]}")
        rows = _FAILED.findall(said)
        return Outcome(CAUGHT, rows[0] if rows else None)


def _environment(copy: pathlib.Path) -> dict[str, str]:
    """Return an environment whose Python finds the copy, and this file in it."""
    compiled = pathlib.Path(tempfile.gettempdir(), "diffsim-mutants")
    paths = os.pathsep.join([str(copy), str(copy / "tools")])
    known = {"JAX_COMPILATION_CACHE_DIR": str(compiled)} | os.environ
    return known | {"PYTHONPATH": paths}


def chosen(patterns: list[str]) -> list[Mutant]:
    """Return the mutants of these names or patterns, all without any."""
    for pattern in patterns:
        if not fnmatch.filter([one.name for one in MUTANTS], pattern):
            sys.exit(f"no mutant is named {pattern!r}; --list shows the names")
    return [
        one
        for one in MUTANTS
        if not patterns or any(fnmatch.fnmatchcase(one.name, p) for p in patterns)
    ]


def _load(path: pathlib.Path) -> dict[str, Outcome]:
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    return {name: Outcome(**one) for name, one in found.items()}


def _save(path: pathlib.Path, known: dict[str, Outcome]):
    """Write the outcomes, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    content = {name: one._asdict() for name, one in known.items()}
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", help="names or patterns of mutants; all without any")
    add("--list", action="store_true", help="show the rules, and run nothing")
    add("--workers", default="auto", help="workers of pytest, its -n")
    add("--timeout", type=float, default=3600.0, help="seconds for one run of pytest")
    add("--json", type=pathlib.Path, help="a file of all outcomes, kept up to date")
    add("--resume", action="store_true", help="skip the mutants that --json has")
    given = parser.parse_args()
    if given.resume and given.json is None:
        parser.error("--resume needs --json, the file to go on from")
    return given


def main() -> int:
    given = _arguments()
    mutants = chosen(given.names)
    if given.list:
        for one in mutants:
            print(f"{one.name}: {one.file}\n    {one.law}")
        return 0
    known = _load(given.json) if given.resume else {}
    with tempfile.TemporaryDirectory(prefix="diffsim-mutants-") as folder:
        trial = Trial(pathlib.Path(folder), given.workers, given.timeout)
        for one in mutants:
            if one.name not in known:
                known[one.name] = trial.outcome(one)
                if given.json is not None:
                    _save(given.json, known)
            print(known[one.name].line(one.name), flush=True)
    for row in sorted(trial.failing):
        print(f"fails without a mutant: {row}")
    missed = [one.name for one in mutants if known[one.name].status != CAUGHT]
    print(f"{len(mutants) - len(missed)} of {len(mutants)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
