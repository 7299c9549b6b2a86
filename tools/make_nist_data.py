"""Gather the 27 NIST StRD nonlinear regression problems into one small JSON file.

    python tools/make_nist_data.py lmfit-1.3.4.tar.gz

The archive is lmfit's source distribution (`pip download --no-binary :all: --no-deps
lmfit`), which carries the files of https://www.itl.nist.gov/div898/strd/ unchanged. As
works of the US government they are in the public domain; see tests/data_nist/README.md.
"""

import json
import pathlib
import sys
import tarfile


OUT = pathlib.Path(__file__).parents[1] / "tests/data_nist/nist_strd.json"


def problem(text: str) -> dict:
    """One file of the collection, whose line numbers are significant."""
    lines = text.splitlines()
    table = [line for line in lines[40:58] if line.strip().startswith("b")]
    rows = [[float(word) for word in line.split("=")[1].split()] for line in table]
    start1, start2, certified, sd = map(list, zip(*rows, strict=True))
    data = [
        [float(word) for word in line.split()] for line in lines[60:] if line.strip()
    ]
    y, *x = map(list, zip(*data, strict=True))
    difficulty = next(line for line in lines if "Level of Difficulty" in line)
    return {
        "difficulty": difficulty.split()[0],
        "start1": start1,
        "start2": start2,
        "certified": certified,
        "sd": sd,
        "rss": float(_after(lines, "Residual Sum of Squares:")),
        "x": x,
        "y": y,
    }


def _after(lines: list[str], label: str) -> str:
    (line,) = (line for line in lines if line.startswith(label))
    return line.removeprefix(label).strip()


def main(archive: str):
    problems = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            path = pathlib.PurePath(member.name)
            if path.suffix == ".dat" and path.parent.name == "NIST_STRD":
                problems[path.stem] = problem(tar.extractfile(member).read().decode())
    assert len(problems) == 27, sorted(problems)
    rows = (f"{json.dumps(k)}: {json.dumps(problems[k])}" for k in sorted(problems))
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
