"""`python -m benchmarks.device`: one prepared run on a GPU, in eight minutes.

It installs nothing and prints as it goes. Every case has a process of its own, which
may run out of memory, crash or hang: that is written down and the run goes on. The JSON
is whole after every row.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any


_FOLDER = pathlib.Path(__file__).resolve().parent
#: Seconds of one case, at most, and those without which no case begins.
_LONGEST, _SHORTEST = 110.0, 15.0
#: Of sizes whose numbers mean nothing most of the time is compilation.
_QUICK = "--xla_backend_optimization_level=0"


def main(arguments: list[str] | None = None) -> None:
    """Measures case after case while there is time."""
    options = _options(arguments)
    if options.worker:
        importlib.import_module("._device_worker", __package__).work(options.tiny)
        return
    deadline = time.monotonic() + 60 * options.minutes
    with contextlib.closing(_workers(options.tiny)) as workers:
        (head,) = next(workers).answers("head", _LONGEST)
        if "failure" in head:
            sys.exit(head["failure"])
        if head["record"]["machine"]["device"] != "gpu" and not options.tiny:
            sys.exit("JAX sees no GPU; --tiny shows on a CPU that the run goes through")
        cases = _chosen(head["about"], options.only)
        record = head["record"] | {"cases": {}, "failed": {}, "not_run": list(cases)}
        path = options.out and options.out / head["file"]
        for name, about in cases.items():
            left = deadline - time.monotonic()
            if left < _SHORTEST:
                break
            print(f"{name}: {about}", flush=True)
            record["not_run"].remove(name)
            begin = time.monotonic()
            case = {"about": about, "date": head["date"], "rows": []}
            for answer in next(workers).answers(name, min(_LONGEST, left)):
                case["seconds"] = time.monotonic() - begin
                _add(record, name, case, answer)
                _save(path, record)
    _save(path, record)
    for name in record["not_run"]:
        print(f"{name}: not run, the {options.minutes:g} minutes were over")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.device", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="cases to run; all if not given")
    add("--out", type=pathlib.Path, help="folder of the JSON")
    add("--minutes", type=float, default=8.0, help="of all, compiling included; 8")
    add(
        "--tiny",
        action="store_true",
        help="small sizes, on a CPU as well: shows that it runs; saved only with --out",
    )
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.out is None and not options.tiny:
        options.out = _FOLDER / "results"
    return options


def _chosen(cases: dict[str, str], names: list[str] | None) -> dict[str, str]:
    for name in names or ():
        if name not in cases:
            sys.exit(f"no case is named {name}; there are {', '.join(cases)}")
    return {name: cases[name] for name in names} if names else cases


def _add(
    record: dict[str, Any], name: str, case: dict[str, Any], answer: dict[str, Any]
) -> None:
    """A row of a case, or why there is none."""
    if "failure" in answer:
        record["failed"][f"{name}, {answer['name']}"] = answer["failure"]
        print(f"  {answer['name']} failed: {answer['failure']}", flush=True)
    else:
        case["rows"].append(answer["row"])
        record["cases"][name] = case
        print(f"  {answer['line']}", flush=True)


def _save(path: pathlib.Path | None, record: dict[str, Any]) -> None:
    """Replaces the file in one go: whoever reads it finds all of it."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    part.replace(path)


class _Worker:
    """A process that measures what it is told; JAX is imported, no device is taken."""

    def __init__(self, tiny: bool):
        command = [sys.executable, "-m", "benchmarks.device", "--worker"]
        # The file is needed, and goes, with the process.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        flags = os.environ.get("XLA_FLAGS", _QUICK if tiny else "")
        self._process = subprocess.Popen(
            [*command, "--tiny"] if tiny else command,
            cwd=_FOLDER.parent,
            env=os.environ | {"XLA_FLAGS": flags},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answers(self, case: str, seconds: float) -> Iterator[dict[str, Any]]:
        """What it says of a case, and why it ended if that was before the case did."""
        begin, killer = time.monotonic(), threading.Timer(seconds, self._process.kill)
        killer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(f"{case}\n")
                self._process.stdin.flush()
            for line in self._process.stdout:
                answer = json.loads(line) if line.startswith("{") else None
                if answer == {}:
                    return
                if answer is not None:
                    yield answer
        finally:
            killer.cancel()
        self._process.wait()
        sentence = f"the process ended by {self._process.returncode}: {self._last()}"
        if time.monotonic() - begin >= seconds:
            sentence = f"stopped after {seconds:.0f} s"
        yield {"name": "the rest", "failure": sentence}

    def _last(self) -> str:
        """The last line on stderr that names an error: what follows is a trace."""
        self._errors.seek(0)
        lines = self._errors.read().splitlines()
        errors = [line for line in lines if re.search("error|fail", line, re.I)]
        return errors[-1].strip() if errors else "it named no error"

    def close(self) -> None:
        """Ends it, so that the memory of the device is free."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError), self._process:
            self._errors.close()


def _workers(tiny: bool) -> Iterator[_Worker]:
    """One for each case, which imports while the one before measures; `tiny`: one."""
    worker, following = _Worker(tiny), None
    try:
        while True:
            following = None if tiny else _Worker(tiny)
            yield worker
            if tiny and worker.is_alive():
                continue
            worker.close()
            worker, following = following or _Worker(tiny), None
    finally:
        worker.close()
        if following is not None:
            following.close()


if __name__ == "__main__":
    main()
