"""`python -m benchmarks.compare`: the committed measurements as Markdown tables."""

import argparse
import json
import pathlib
from typing import Any

from . import _tables as tables
from ._summary import headlines, summary


HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
README = HERE.parent / "README.md"
BEGIN = "<!-- begin: python -m benchmarks.compare -->"
END = "<!-- end: python -m benchmarks.compare -->"

_INTRODUCTION = """\
Contestants take turns in one process, A B A B, on one core; each time is the best of
its turns. Where ratios differ from process to process the row is that of the median
one, and in brackets stand the least and the most. Memory is what the compiled program
holds, temporaries and outputs. Errors are relative to the largest value. First results
and imports are those of fresh processes in turns: times are medians, and in brackets
stand the least and the most ratio of two that ran one after the other."""

#: What a reader is told from: median above best, and share of the core for others.
_NOISY, _AWAY = 0.15, 0.03


def main(arguments: list[str] | None = None) -> None:
    """Prints what was asked for and what was measured, or writes the page of it."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.compare", description=__doc__
    )
    add = parser.add_argument
    add("--results", type=pathlib.Path, default=HERE / "results", help="folder of JSON")
    add("--docs", action="store_true", help="write README and docs/benchmarks.md")
    options = parser.parse_args(arguments)
    records = read(options.results)
    if not records:
        parser.exit(1, f"no JSON in {options.results}; python -m benchmarks.run\n")
    short = summary(records)
    if options.docs:
        targets = f"## Targets\n\n{short}"
        text = "\n\n".join([_INTRODUCTION, targets, *map(page, records)])
        PAGE.write_text(filled(PAGE.read_text(), text))
        README.write_text(filled(README.read_text(), headlines(records)))
    else:
        print(short)


def read(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The records of all machines; tiny runs measure nothing and are left out."""
    # By their stems a processor comes before the same one with flags.
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    records = [json.loads(path.read_text()) for path in paths]
    return [record for record in records if not record["effort"]["tiny"]]


def page(record: dict[str, Any]) -> str:
    """Every row of one machine, a section a case."""
    sections = [
        f"### {case['about']}\n\n{_section(case['rows'])}"
        for case in record["cases"].values()
    ]
    noise = _noise(record)
    heading = f"## {record['machine']['processor']}\n\n{_machine(record)}{noise}"
    return "\n\n".join([heading, *sections])


def filled(text: str, tables_: str) -> str:
    """A page with what stands between its two marks replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables_}\n\n{END}{after}"


def _section(rows: list[dict[str, Any]]) -> str:
    header = (
        "what",
        "target",
        "measured",
        "peer",
        "time",
        "peer's time",
        "error reached",
        "compile",
        "memory",
        "share",
    )
    cells = [
        (
            row["what"],
            tables.target(row),
            tables.measured(row),
            row["peer"] or "",
            tables.seconds(row["seconds"]),
            tables.seconds(row["peer_seconds"]),
            tables.error(row),
            tables.seconds(row["compile_seconds"]),
            tables.memory(row["memory_bytes"]),
            tables.share(row),
        )
        for row in rows
    ]
    # A column that says nothing here only makes the others narrow.
    kept = [i for i in range(len(header)) if any(one[i] for one in cells)]
    narrow = [[one[i] for i in kept] for one in cells]
    return tables.markdown([header[i] for i in kept], narrow)


def _machine(record: dict[str, Any]) -> str:
    found, versions = record["machine"], record["versions"]
    cores = f", {'one core of ' if found['threads'] else 'cores: '}{found['cores']}"
    cores = "" if found["device"] == "gpu" else cores
    packages = ", ".join(f"{k} {v}" for k, v in versions.items() if v is not None)
    dates = sorted({case["date"] for case in record["cases"].values()})
    return f"{found['processor']}{cores}; {packages}; {' and '.join(dates)}."


def _noise(record: dict[str, Any]) -> str:
    """Disturbances of the measurement, if any."""
    noise, away = _worst(record, "noise"), _worst(record, "away")
    text = ""
    if noise > _NOISY:
        text += (
            " Median times exceed the best, which stand here, by up to "
            f"{tables.percent(noise)}: others were busy, or a cache was unlucky."
        )
    if away > _AWAY:
        text += (
            f" Up to {tables.percent(away)} of a best time the core served others: "
            "long runs look slower than they are."
        )
    return text


def _worst(record: dict[str, Any], key: str) -> float:
    found = [row[key] for case in record["cases"].values() for row in case["rows"]]
    return max((x for x in found if x is not None), default=0.0)


if __name__ == "__main__":
    main()
