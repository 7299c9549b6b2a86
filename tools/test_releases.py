"""Run the rows marked `core` on releases of Python and JAX, and write the table.

    python tools/test_releases.py python3.11 python3.12 python3.13

Each interpreter gets the newest release of everything that it can have, and the first
of them the lowest versions that pyproject.toml allows as well. The Python that runs
this needs `uv`. The table is in docs/releases.md.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "releases.md"
_BEGIN, _END = "<!-- begin: tools/test_releases.py -->", "<!-- end -->"
_SHOWN = ("jax", "equinox", "diffrax", "optimistix", "lineax", "optax", "numpy")


def main(interpreters: list[str]):
    """Test every combination and write one row for each."""
    runs = [(interpreters[0], "lowest-direct"), *((x, "highest") for x in interpreters)]
    rows = [_row(python, resolution) for python, resolution in runs]
    head = ["Python", *_SHOWN, "core rows"]
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    before, rest = _PAGE.read_text().split(_BEGIN)
    after = rest.split(_END)[1]
    _PAGE.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}")


def _row(python: str, resolution: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        inside = f"{folder}/bin/python"
        uv = [sys.executable, "-m", "uv"]
        _check([*uv, "venv", "-q", "--python", python, "--clear", folder])
        pinned = f"{folder}/pinned.txt"
        compiled = ["pip", "compile", "-q", "pyproject.toml", "--extra", "test"]
        chosen = ["--python", inside, "--resolution", resolution, "-o", pinned]
        _check([*uv, *compiled, *chosen])
        given = ["--python", inside, "-r", pinned, "-e", "."]
        _check([*uv, "pip", "install", "-q", *given])
        release = _check([inside, "--version"]).split()[1]
        tested = subprocess.run(
            [inside, "-m", "pytest", "-q", "-m", "core", "-p", "no:cacheprovider"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = re.search(r"(\d+ .*) in [\d.]+s", tested.stdout.splitlines()[-1])
        versions = dict(
            line.split()[0].split("==")
            for line in pathlib.Path(pinned).read_text().splitlines()
            if "==" in line
        )
        shown = [versions[name] for name in _SHOWN]
        return [release, *shown, outcome[1] if outcome else "did not run"]


def _check(command: list[str]) -> str:
    given = {"cwd": _ROOT, "capture_output": True, "text": True}
    return subprocess.run(command, check=True, **given).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
