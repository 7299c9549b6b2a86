"""`main`: what the command `diffsim` does."""

import argparse
import contextlib
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from .._configure import configure
from ._convergence_table import orders
from ._demo import demo
from ._derivative_table import derivatives
from ._info import info
from ._integrator_table import verify
from ._sweep_command import run_sweep


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `diffsim demo`, `diffsim sweep`, `diffsim verify` or `diffsim info`.

    **Arguments:** `arguments`, words of the command line; None takes those of the
    process.

    **Returns:** the exit code: 0 if all is well, 1 if the demo or a check failed (what
    failed is said), 2 for a command that makes no sense or cannot run, 3 if runs of a
    sweep failed, 130 where it was stopped, and 141 where nobody reads on, as in
    `diffsim verify | head -1`.
    """
    # Until here the process has done nothing but import, on one core.
    importing = time.process_time() if arguments is None else 0.0
    try:
        try:
            return _run(_parser().parse_args(arguments), importing)
        finally:
            # Else a pipe is found closed at exit only, where Python complains of it.
            sys.stdout.flush()
            sys.stderr.flush()
    except BrokenPipeError:
        # Nobody reads the rest of the text.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141


def _run(words: argparse.Namespace, importing: float) -> int:
    try:
        if words.command == "info":
            print(info())
            return 0
        # A command owns its process and may set what a library may not.
        configure(enable_x64=True)
        # In a program in which JAX has started a command is slower, and as right.
        with contextlib.suppress(RuntimeError):
            configure(cpu_loop_fusion=True)
        if words.command == "sweep":
            return run_sweep(words)
        if words.command == "demo":
            return demo(words.out, seed=words.seed, importing=importing)
        tables = {"orders": orders, "derivatives": derivatives}
        return tables.get(words.what, verify)(markdown=words.markdown)
    except BrokenPipeError:
        raise
    except (ValueError, ImportError, OSError) as error:
        print(f"diffsim {words.command}: {error}", file=sys.stderr)
        return 2
    except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "site-packages" not in frame.filename]
        where = (own or frames)[-1]
        text = traceback.format_exception_only(error)[0].strip()
        place = f"{where.filename}, line {where.lineno}"
        print(f"diffsim {words.command}: {place}: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\ndiffsim {words.command}: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diffsim", description="Differentiable physics simulations in JAX."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "demo",
        help="weigh the planets from ten years of JPL positions (half a minute to one)",
        description=(
            "Fits the masses and orbits of Sun and planets to ten years of positions "
            "of JPL's DE440 with noise, prints them beside JPL's values, forecasts "
            "twenty years, sweeps Jupiter's mass and saves two pictures."
        ),
    )
    command.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("."),
        metavar="DIR",
        help="folder for the pictures (default: the current one)",
    )
    command.add_argument(
        "--seed",
        type=_seed,
        default=1,
        metavar="N",
        help="seed of the noise and of the perturbed initial guess (default 1)",
    )
    command = commands.add_parser(
        "verify",
        help="check derivatives and orders of everything public (some minutes)",
        description=(
            "Prints simulation × solver × Taylor slope × order × gradient cost for "
            "everything public, and fails if a law does not hold."
        ),
    )
    command.add_argument(
        "--orders",
        action="store_const",
        const="orders",
        dest="what",
        help="of fields: order of every equation, boundary and scheme",
    )
    command.add_argument(
        "--derivatives",
        action="store_const",
        const="derivatives",
        dest="what",
        help="of fields: equation × time integrator × Taylor slope",
    )
    command.add_argument(
        "--markdown", action="store_true", help="as a table for the documentation"
    )
    _add_sweep(commands)
    commands.add_parser("info", help="versions, devices, settings")
    return parser


def _add_sweep(commands: Any):
    command = commands.add_parser(
        "sweep",
        help="many runs of a function of yours, kept in a store as they come",
        description=(
            "Computes module:function for every run that a TOML file describes, and "
            "keeps the outcomes in a Zarr store. Stopped or killed, the same command "
            "goes on where it was. Exits with 3 if runs failed."
        ),
    )
    command.add_argument(
        "predict",
        nargs="?",
        metavar="MODULE:FUNCTION",
        help="the function of a model, looked for from the current folder on",
    )
    command.add_argument(
        "file",
        nargs="?",
        type=pathlib.Path,
        metavar="SWEEP.TOML",
        help="model, samples of its parameters, settings",
    )
    command.add_argument("--store", metavar="RUNS.ZARR", help="where outcomes are kept")
    command.add_argument(
        "--part",
        type=_part,
        metavar="I/N",
        help="the I-th of N jobs that share the store, from 0: 0/16 to 15/16",
    )
    command.add_argument(
        "--cpu-devices",
        type=int,
        metavar="N",
        help="cores that compute side by side, each with its share of the runs",
    )
    command.add_argument(
        "--retry-failed", action="store_true", help="repeat the runs that failed"
    )
    command.add_argument(
        "--status", metavar="RUNS.ZARR", help="only say how far the sweep is"
    )


def _part(word: str) -> tuple[int, int]:
    index, slash, count = word.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be I/N, as 0/16, got {word!r}")
    return int(index), int(count)


def _seed(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, got {word!r}")
    return int(word)
