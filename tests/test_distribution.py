"""What is published: contents of both archives, versions, and where data are from."""

import fnmatch
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

import diffsim


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
NAME = f"diffsim-{diffsim.__version__}"
INFO = f"{NAME}.dist-info"

#: Neither source nor prose nor a picture of the documentation is data.
NO_DATA = {".py", ".md", ".typed", ".js", ".css", ".png", ".svg", ".gif", ".webp"}
FOLDERS = ("benchmarks", "diffsim", "docs", "examples", "tests", "tools")
DATA = [
    path
    for folder in FOLDERS
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.is_file() and path.suffix not in NO_DATA and "__pycache__" not in path.parts
]


def files_below(folder):
    """Names in `folder`, as an archive of it has them."""
    return {
        path.relative_to(folder.parent).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(folder, *words):
    """Run a module of Python, without a network."""
    command = [sys.executable, "-m", *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Paths of the wheel and the source archive, built where the sources are."""
    pytest.importorskip("hatchling", reason="needs pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    run(REPOSITORY, "hatchling", "build", "-d", str(folder))
    wheel, source = folder / f"{NAME}-py3-none-any.whl", folder / f"{NAME}.tar.gz"
    assert {wheel, source} == set(folder.iterdir())
    return wheel, source


def contents(wheel):
    """The bytes of every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def names_in(source):
    """Names in a source archive, without its one folder."""
    with tarfile.open(source) as archive:
        parts = [x.name.partition("/") for x in archive.getmembers() if x.isfile()]
    assert {first for first, _, _ in parts} == {NAME}
    return {rest for _, _, rest in parts}


def test_wheel_holds_the_package_and_nothing_else(archives):
    names = set(contents(archives[0]))
    package = {name for name in names if name.startswith("diffsim/")}
    assert package == files_below(REPOSITORY / "diffsim")
    assert {"diffsim/py.typed", "diffsim/problems/data/de440.npz"} <= package
    about = "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"
    assert names - package == {f"{INFO}/{name}" for name in about}


def test_wheel_has_the_version_and_the_license_of_the_package(archives):
    found = contents(archives[0])
    lines = found[f"{INFO}/METADATA"].decode().partition("\n\n")[0].splitlines()
    assert f"Version: {diffsim.__version__}" in lines
    assert "License-Expression: Apache-2.0" in lines
    assert found[f"{INFO}/licenses/LICENSE"] == (REPOSITORY / "LICENSE").read_bytes()


def test_source_archive_holds_what_tests_and_documentation_need(archives):
    top = {name.partition("/")[0] for name in names_in(archives[1])}
    files = ".gitignore CITATION.cff LICENSE PKG-INFO mkdocs.yml pyproject.toml"
    pages = "CHANGELOG CODE_OF_CONDUCT CONTRIBUTING CONVENTIONS README SECURITY"
    pages = {f"{page}.md" for page in pages.split()}
    assert top == {".ci", *FOLDERS, *files.split(), *pages}


def test_source_archive_holds_every_tracked_file(archives):
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this tree is no checkout")
    listed = ["git", "-c", "core.quotePath=false", "ls-files"]
    tracked = subprocess.check_output(listed, cwd=REPOSITORY, text=True).splitlines()
    here = {name for name in tracked if (REPOSITORY / name).is_file()}
    assert here - names_in(archives[1]) == set()


def test_wheel_from_the_source_archive_is_the_same(archives, tmp_path):
    with tarfile.open(archives[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    run(tmp_path / NAME, "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert contents(tmp_path / archives[0].name) == contents(archives[0])


def test_archives_are_small(archives):
    """Measured: 1.0 MB and 1.6 MB; pictures of the documentation may take 3 MB."""
    wheel, source = (path.stat().st_size for path in archives)
    assert wheel < 1.2e6
    assert source < 5e6


def test_descriptions_are_valid(archives):
    pytest.importorskip("twine", reason="needs pip install -e '.[dev]'")
    said = run(REPOSITORY, "twine", "check", "--strict", *map(str, archives))
    assert said.count("PASSED") == 2


def test_citation_names_this_version():
    text = (REPOSITORY / "CITATION.cff").read_text()
    assert re.findall("^version: (.+)$", text, re.M) == [diffsim.__version__]


@pytest.mark.parametrize("path", DATA, ids=lambda x: str(x.relative_to(REPOSITORY)))
def test_data_have_a_source_a_license_and_a_script(path):
    """Each is named, by itself or by a pattern, in the nearest README above it."""
    above = (folder / "README.md" for folder in path.parents)
    text = next(page for page in above if page.is_file()).read_text()
    patterns = re.findall(r"`([^`\n]+)`", text)
    assert any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
    assert {"Source", "License"} <= set(re.findall("^## (.+)$", text, re.M))
    module, script = re.findall(r"^ *python (-m )?(\S+)", text, re.M)[0]
    name = f"{script.replace('.', '/')}.py" if module else script
    assert (REPOSITORY / name).is_file()
