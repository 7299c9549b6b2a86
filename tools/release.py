"""Make a release: check, run .ci/run --all, build, try the wheel, tag, and upload.

    python tools/release.py --skip-ci   # dry run: builds and tries, changes nothing
    python tools/release.py             # dry run with .ci/run --all
    python tools/release.py --tag       # all of it, then the tag
    python tools/release.py --upload    # all of it, the tag, then PyPI

Needs the extra `dev`. The version is `__version__` of diffsim/__init__.py; its day
stands in CHANGELOG.md, as `## 0.1.0 (2000-12-31)`, and in CITATION.cff.

On PyPI the name `diffsim` is that of another project, of diffraction patterns: before
the first upload `name` in pyproject.toml has to become one that is free. Imports stay.
"""

import argparse
import datetime
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile


_ROOT = pathlib.Path(__file__).resolve().parents[1]
_BRANCH = "main"
_ALL_PASSED = _ROOT / "tests" / "all_passed.txt"


def version_of(root: pathlib.Path) -> str:
    """Return `__version__`, without importing anything."""
    text = (root / "diffsim" / "__init__.py").read_text()
    return re.findall(r'^__version__ = "(.+)"$', text, re.M)[0]


def refusals(root: pathlib.Path) -> list[str]:
    """Return why `root` cannot be released, a sentence each; nothing if it can."""
    version = version_of(root)
    day, undated = _day_of_release(root, version)
    found = [*_of_git(root, version), *undated, *_of_citation(root, version, day)]
    for name in ("hatchling", "twine"):
        if importlib.util.find_spec(name) is None:
            found.append(f"{name} is not installed here; pip install -e '.[dev]'")
    return found


def _of_git(root: pathlib.Path, version: str) -> list[str]:
    found = []
    if changed := _git(root, "status", "--porcelain").splitlines():
        some = ", ".join(line[3:] for line in changed[:3])
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        found.append(f"the work tree is not clean ({some}{more}); commit or stash it")
    if (branch := _git(root, "branch", "--show-current")) != _BRANCH:
        found.append(f"the branch is {branch!r}, not {_BRANCH}; git switch {_BRANCH}")
    if _git(root, "tag", "--list", f"v{version}"):
        what = f"version {version} is tagged already, as v{version}"
        found.append(f"{what}; raise __version__ in diffsim/__init__.py")
    return found


def _day_of_release(root: pathlib.Path, version: str) -> tuple[str, list[str]]:
    """The day in the CHANGELOG, empty if there is none, and then why."""
    text = (root / "CHANGELOG.md").read_text()
    dated = re.search(rf"^## {re.escape(version)} \((.*)\)$", text, re.M)
    try:
        day = datetime.date.fromisoformat(dated[1] if dated else "")
        return day.isoformat(), []
    except ValueError:
        first = next(iter(re.findall(r"^## .*$", text, re.M)), "")
        wanted = f"## {version} ({datetime.date.today()})"
        return "", [f"CHANGELOG.md begins with {first!r}, not {wanted!r}; date it"]


def _of_citation(root: pathlib.Path, version: str, day: str) -> list[str]:
    text = (root / "CITATION.cff").read_text()
    said = dict(re.findall(r"^(version|date-released): *[\"']?([\w.+-]+)", text, re.M))
    wanted = {"version": version} | ({"date-released": day} if day else {})
    return [
        f"CITATION.cff has {said.get(key, 'nothing')} for {key}; write '{key}: {value}'"
        for key, value in wanted.items()
        if said.get(key) != value
    ]


def relative_links(wheel: str | os.PathLike) -> list[str]:
    """Return links of the long description that only a repository can follow."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (x for x in archive.namelist() if x.endswith("dist-info/METADATA"))
        text = archive.read(name).decode().partition("\n\n")[2]
    targets = re.findall(r'(?:\]\(|src="|href=")([^)"\s]+)', text)
    return sorted({x for x in targets if not re.match(r"#|[a-z]+:", x)})


def build(root: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Build both archives, check their description, and try the wheel alone."""
    name, python = folder / f"diffsim-{version_of(root)}", sys.executable
    archives = wheel, _ = [f"{name}-py3-none-any.whl", f"{name}.tar.gz"]
    _run([python, "-m", "hatchling", "build", "-d", folder], root)
    _run([python, "-m", "twine", "check", "--strict", *archives], root)
    with tempfile.TemporaryDirectory() as fresh:  # away from the checkout
        inside = pathlib.Path(fresh, "env", "bin")
        _run([python, "-m", "venv", inside.parent], fresh)
        _run([inside / "pip", "install", "-q", wheel], fresh)
        _run([inside / "python", "-c", "import diffsim"], fresh)
        _run([inside / "diffsim", "info"], fresh)
    return archives


def _git(root: pathlib.Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.check_output(command, text=True).rstrip()


def _run(command: list, folder: str | os.PathLike):
    print("\n+", shown := " ".join(map(str, command)), flush=True)
    # With it the checkout would stand in for the wheel.
    rest = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if subprocess.run(command, cwd=folder, env=rest, check=False).returncode:
        sys.exit(f"no release: `{shown}` failed")


def main(words: list[str] | None = None):
    parser = argparse.ArgumentParser(description="Make a release; by default, try it.")
    parser.add_argument("--skip-ci", action="store_true", help="only in a dry run")
    parser.add_argument("--tag", action="store_true", help="tag what has passed")
    parser.add_argument("--upload", action="store_true", help="tag, and send to PyPI")
    given = parser.parse_args(words)
    version, real = version_of(_ROOT), given.tag or given.upload
    if given.skip_ci and real:
        parser.error("--skip-ci is for a dry run; a release has passed .ci/run")
    found = refusals(_ROOT)
    if found and real:
        sys.exit("\n".join(f"no release: {x}" for x in found))
    if not given.skip_ci:
        _run(["bash", ".ci/run", "--all"], _ROOT)
    # What CI records belongs to a later commit, and not to these archives.
    passed = _ALL_PASSED.read_text()
    _git(_ROOT, "checkout", "--", str(_ALL_PASSED))
    archives = build(_ROOT, _ROOT / "dist")
    _ALL_PASSED.write_text(passed)
    if links := relative_links(archives[0]):
        what = f"PyPI cannot follow README.md's links to {', '.join(links)}"
        found.append(f"{what}; give them the repository's address before an upload")
    if not real:
        print(f"\ndry run: --tag would make v{version}, --upload send dist/ as well")
        sys.exit("\n".join(f"but it would be refused: {x}" for x in found) or 0)
    if found and given.upload:
        sys.exit(f"no release: {found[0]}")
    _run(["git", "tag", "-a", f"v{version}", "-m", f"diffsim {version}"], _ROOT)
    if given.upload:
        _run([sys.executable, "-m", "twine", "upload", *archives], _ROOT)
    print(f"\n{version} is tagged; git push --follow-tags publishes the tag")


if __name__ == "__main__":
    main()
