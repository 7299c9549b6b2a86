"""Checks subjects of commits: `component: imperative verb + object`, or several.

`python tools/commit_subjects.py` looks at the last commit, and
`python tools/commit_subjects.py main..` at all since main.
"""

import re
import subprocess
import sys


LONGEST = 72
SUBJECT = re.compile(r"[a-z][a-z0-9_./, ]*: [A-Z][a-z]+ \S.*[^.]")
#: "Added", "adding" and "adds" tell a story, "Add" says what the commit does.
NO_IMPERATIVE = re.compile(r": \w+(?:ed|ing|(?<!s)s) ")
#: Imperatives that end like one of those.
IMPERATIVES = {"Bring", "Embed", "Exceed", "Feed", "Need", "Proceed", "Shed", "Speed"}


def objection(subject: str) -> str | None:
    """Return what is wrong with a subject; None if nothing is."""
    if len(subject) > LONGEST:
        return f"longer than {LONGEST} characters"
    if not SUBJECT.fullmatch(subject):
        return "not of the form `component: Imperative verb and object`, without a stop"
    verb = subject.partition(": ")[2].split()[0]
    if NO_IMPERATIVE.search(subject) and verb not in IMPERATIVES:
        return f"{verb} is no imperative"
    return None


def main() -> int:
    revisions = sys.argv[1:] or ["-1"]
    log = ["git", "log", "--no-merges", "--format=%h %s", *revisions]
    lines = subprocess.run(log, capture_output=True, text=True, check=True).stdout
    wrong = 0
    for line in lines.splitlines():
        commit, _, subject = line.partition(" ")
        what = objection(subject)
        if what is not None:
            wrong += 1
            print(f"{commit} {subject}\n    {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
