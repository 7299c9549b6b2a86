"""`python -m benchmarks.run`: measures, and writes the JSON of this machine."""

import argparse
import importlib
import os
import pathlib

from ._one_thread import one_thread


RESULTS = pathlib.Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> None:
    """Runs the cases that are asked for, on one core or on the GPU."""
    options = _options(arguments)
    tied = False
    if options.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        tied = one_thread()
    # Imported only now: JAX takes its threads as the environment is when it starts.
    session = importlib.import_module("._session", __package__)
    session.run(options, one_thread=tied)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.run", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="cases to run; all if not given")
    add("--out", type=pathlib.Path, help="folder of the JSON")
    add("--device", choices=("cpu", "gpu"), default="cpu", help="where to run; cpu")
    add("--rounds", type=int, default=7, help="least rounds of a contest; 7")
    add("--seconds", type=float, default=10.0, help="least seconds of a contest; 10")
    add("--processes", type=int, help="fresh processes to take the median of")
    add(
        "--by-release",
        action="store_true",
        help="name the file and the column after this release of JAX as well, so that "
        "they stand beside those of another",
    )
    add(
        "--tiny",
        action="store_true",
        help="small sizes and one round: shows that it runs; saved only with --out",
    )
    options = parser.parse_args(arguments)
    if options.out is None and not options.tiny:
        options.out = RESULTS
    return options


if __name__ == "__main__":
    main()
