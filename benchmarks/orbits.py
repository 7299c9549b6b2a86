"""`python -m benchmarks.orbits`: the page of orbit integrators from committed JSON."""

import argparse
import pathlib
from typing import Any

from ._tables import number, scientific
from .compare import HERE, read


CASE = "orbit_integrators"
PAGE = HERE.parent / "docs" / "orbit_integrators.md"
PICTURE = HERE.parent / "docs" / "images" / "orbit_integrators.webp"
BEGIN = "<!-- begin: python -m benchmarks.orbits -->"
END = "<!-- end: python -m benchmarks.orbits -->"

_HEADER = (
    "solver",
    "energy error",
    "REBOUND's",
    "time ÷ REBOUND's",
    "compiling, s",
)


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables, or writes the page and its picture."""
    parser = argparse.ArgumentParser("python -m benchmarks.orbits", description=__doc__)
    add = parser.add_argument
    add("--results", type=pathlib.Path, default=HERE / "results", help="folder of JSON")
    add("--docs", action="store_true", help="write docs/orbit_integrators.md")
    options = parser.parse_args(arguments)
    records = [record for record in read(options.results) if CASE in record["cases"]]
    if not records:
        parser.exit(1, f"no {CASE} in {options.results}; python -m benchmarks.run\n")
    if options.docs:
        PAGE.write_text(filled(PAGE.read_text(), "\n\n".join(map(section, records))))
        draw(records[-1])
    else:
        print("\n\n".join(map(section, records)))


def filled(text: str, tables: str) -> str:
    """The page with what stands between its two marks replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def section(record: dict[str, Any]) -> str:
    """What one machine measured."""
    machine, versions = record["machine"], record["versions"]
    about = (
        f"{machine['processor']}, one core, JAX {versions['jax']}, "
        f"REBOUND {versions['rebound']}:"
    )
    rows = record["cases"][CASE]["rows"]
    runs = [row for row in rows if "energy_error" in row["details"]]
    others = [row for row in rows if "energy_error" not in row["details"]]
    ratios = [(row["what"], row["peer"], number(row["value"])) for row in others]
    return "\n\n".join(
        [
            about,
            _table(_HEADER, map(_cells, runs)),
            _table(("what", "divided by", "ratio"), ratios),
        ]
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    details = row["details"]
    return (
        f"`{solver(row)}`",
        scientific(details["energy_error"]),
        scientific(details["peer_energy_error"]),
        number(row["value"]),
        number(row["compile_seconds"]),
    )


def solver(row: dict[str, Any]) -> str:
    """Its name, as it is made."""
    return row["what"].split(", outer Solar System")[0]


def _table(header: tuple[str, ...], rows: Any) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(record: dict[str, Any]) -> None:
    """Energy error against the time of a run, ours and REBOUND's."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    rows = record["cases"][CASE]["rows"]
    for i, row in enumerate(r for r in rows if "energy_error" in r["details"]):
        details, color = row["details"], f"C{i}"
        ours = row["seconds"], details["energy_error"]
        theirs = row["peer_seconds"], details["peer_energy_error"]
        ax.plot(*zip(ours, theirs, strict=True), color=color, lw=1, alpha=0.6)
        ax.plot(*ours, "o", color=color, label=solver(row))
        ax.plot(*theirs, "s", color=color, mfc="white")
    ax.set(xscale="log", yscale="log", xlabel="time of the run / s")
    ax.set_ylabel("energy error")
    ax.grid(alpha=0.3)
    handles, labels = ax.get_legend_handles_labels()
    handles += ax.plot([], [], "s", color="gray", mfc="white")
    ax.legend(handles, [*labels, "REBOUND's"], fontsize=8, loc="best")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
