"""A release is refused, by one sentence each, unless everything about it agrees."""

import os
import pathlib
import re
import runpy
import subprocess
import zipfile

import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
RELEASE = runpy.run_path(str(REPOSITORY / "tools" / "release.py"))
VERSION = "1.2.3"
FILES = {
    "diffsim/__init__.py": f'import os\n\n\n__version__ = "{VERSION}"\n',
    "CHANGELOG.md": f"# All\n\n## {VERSION} (2000-12-31)\n\n## 1.2.2 (long ago)\n",
    "CITATION.cff": f"version: {VERSION}\ndate-released: 2000-12-31\n",
}


#: Nothing of whoever runs this: names, signatures, hooks.
SETTINGS = (
    "user.name=Nobody",
    "user.email=nobody@example.org",
    "commit.gpgsign=false",
    "tag.gpgsign=false",
    "core.hooksPath=/dev/null",
)


def git(root, *words):
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    command = ["git", *settings, *words]
    subprocess.run(command, cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A committed tree that may be released, on main."""
    # A hook of git names the repository that it runs for, which is not this one.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git(tmp_path, "init", "-b", "main")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all: Begin")
    return tmp_path


@pytest.fixture
def refusals(checkout, monkeypatch):
    """What is said of the tree; the tools count as installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    return lambda: RELEASE["refusals"](checkout)


def edit(root, name, old, new):
    path = root / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    git(root, "commit", "-a", "-m", "all: Edit")


def test_tree_in_which_everything_agrees_is_not_refused(refusals):
    assert refusals() == []


def test_changed_tree_is_refused_with_its_first_files(checkout, refusals):
    for i in range(4):
        (checkout / f"new_{i}.txt").write_text("")
    (said,) = refusals()
    assert "not clean (new_0.txt, new_1.txt, new_2.txt and 1 more)" in said


def test_other_branch_is_refused(checkout, refusals):
    git(checkout, "switch", "-c", "topic")
    (said,) = refusals()
    assert "the branch is 'topic', not main; git switch main" in said
    git(checkout, "switch", "--detach")
    (said,) = refusals()
    assert "the branch is '', not main" in said


def test_tagged_version_is_refused(checkout, refusals):
    git(checkout, "tag", f"v{VERSION}")
    (said,) = refusals()
    assert f"version {VERSION} is tagged already" in said and "__version__" in said


@pytest.mark.parametrize("day", ["unreleased", "2000-13-31", "soon"])
def test_changelog_without_a_day_is_refused(checkout, refusals, day):
    edit(checkout, "CHANGELOG.md", "2000-12-31", day)
    (said,) = refusals()
    assert f"'## {VERSION} ({day})'" in said
    assert re.search(r"not '## 1\.2\.3 \(\d{4}-\d\d-\d\d\)'", said)


def test_changelog_without_the_version_is_refused(checkout, refusals):
    edit(checkout, "CHANGELOG.md", VERSION, "1.2.4")
    (said,) = refusals()
    assert "CHANGELOG.md begins with '## 1.2.4" in said


@pytest.mark.parametrize(
    ("line", "other", "said"),
    [
        (
            f"version: {VERSION}",
            "version: 1.2.2",
            "1.2.2 for version; write 'version: 1.2.3'",
        ),
        ("date-released: 2000-12-31\n", "", "nothing for date-released; write"),
    ],
)
def test_citation_of_another_release_is_refused(checkout, refusals, line, other, said):
    edit(checkout, "CITATION.cff", line, other)
    (found,) = refusals()
    assert said in found


def test_missing_build_tools_are_refused_with_the_command(checkout, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = RELEASE["refusals"](checkout)
    assert [x.split()[0] for x in said] == ["hatchling", "twine"]
    assert all("pip install -e '.[dev]'" in x for x in said)


def test_every_refusal_is_one_sentence_with_a_remedy(checkout, refusals):
    git(checkout, "tag", f"v{VERSION}")
    git(checkout, "switch", "-c", "topic")
    edit(checkout, "CHANGELOG.md", "(2000-12-31)", "(unreleased)")
    edit(checkout, "CITATION.cff", VERSION, "1.0")
    (checkout / "new.txt").write_text("")
    said = refusals()
    assert len(said) == 5
    for sentence in said:
        assert "\n" not in sentence and "; " in sentence


def test_links_that_only_a_repository_follows_are_listed(tmp_path):
    text = "[a](docs/a.md) [b](https://b.org) [c](#c) ![d](docs/d.png)"
    text += '<img src="docs/e.png"> <a href="mailto:f@example.org">'
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("x-1.dist-info/METADATA", f"Name: x\n\n{text}\n")
    found = RELEASE["relative_links"](tmp_path / "x.whl")
    assert found == ["docs/a.md", "docs/d.png", "docs/e.png"]


@pytest.mark.parametrize("flag", ["--tag", "--upload"])
def test_real_release_cannot_skip_ci(flag, capsys):
    with pytest.raises(SystemExit, match="2"):
        RELEASE["main"](["--skip-ci", flag])
    assert "--skip-ci is for a dry run" in capsys.readouterr().err
