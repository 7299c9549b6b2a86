"""Summary of all machines: each case's first target, and every miss; headlines."""

from typing import Any

from . import _tables as tables


Record = dict[str, Any]

#: Cases of which the first row stands in the README.
_HEADLINES = "leapfrog_5_bodies", "spectral", "gradient_1024"


def summary(records: list[Record]) -> str:
    """A count of targets that are met, and a table with a column for each machine."""
    records = [record for record in records if _asked(record)]
    machines = [record["machine"]["processor"] for record in records]
    columns = [_asked(record) for record in records]
    counts = [
        f"{sum(row['met'] for row in asked.values())} of {len(asked)} on {machine}"
        for machine, asked in zip(machines, columns, strict=True)
    ]
    header = ("what", "target", "peer", "error reached", *machines)
    body = [_cells(key, columns) for key in _shown(columns)]
    told = (
        f"Targets that are met: {'; '.join(counts)}. The first of every case, and all "
        "that are missed:"
    )
    return f"{told}\n\n{tables.markdown(header, body)}"


def headlines(records: list[Record]) -> str:
    """A line for each of three cases, with what all machines measured by default."""
    plain = [r for r in records if "--" not in r["machine"]["processor"]]
    return "\n".join(_headline([_first(r, case) for r in plain]) for case in _HEADLINES)


def _first(record: Record, case: str) -> dict[str, Any] | None:
    return record["cases"][case]["rows"][0] if case in record["cases"] else None


def _headline(rows: list[dict[str, Any] | None]) -> str:
    known = [row for row in rows if row is not None]
    one, values = known[0], [row["value"] for row in known]
    ends = dict.fromkeys(tables.number(end(values)) for end in (min, max))
    return (
        f"- {one['what']}: **{' to '.join(ends)} {one['unit']}** the time of "
        f"{one['peer']}, {tables.scientific(one['error'])} from {one['reference']}"
    )


def _asked(record: Record) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows with a target, by their case, what they are and beside whom."""
    return {
        (name, row["what"], row["peer"] or ""): row
        for name, case in record["cases"].items()
        for row in case["rows"]
        if row["target"] is not None
    }


def _shown(columns: list[dict]) -> list[tuple[str, str, str]]:
    """In the order in which the cases are measured."""
    every = sorted(columns, key=len, reverse=True)
    keys = list(dict.fromkeys(key for asked in every for key in asked))
    cases = list(dict.fromkeys(case for case, *_ in keys))
    missed = {k for asked in columns for k, row in asked.items() if not row["met"]}
    first = {next(key for key in keys if key[0] == case) for case in cases}
    shown = [key for key in keys if key in missed | first]
    return sorted(shown, key=lambda key: cases.index(key[0]))


def _cells(key: tuple[str, str, str], columns: list[dict]) -> list[str]:
    _, what, peer = key
    rows = [asked.get(key) for asked in columns]
    one = next(row for row in rows if row is not None)
    found = ["" if row is None else tables.measured(row) for row in rows]
    return [what, tables.target(one), peer, tables.error(one), *found]
