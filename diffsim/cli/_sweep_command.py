"""`run_sweep`: a sweep from the command line, that can be stopped and goes on."""

import argparse
import datetime
import importlib
import inspect
import os
import signal
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .. import sweeps
from .._configure import configure
from .._paths import closest_matches
from .._progress import progress_text, show_line
from .._validation import finite, function_of
from ..inference import Free
from ..sweeps import SweepOptions, store_status, sweep


#: Seconds between two lines where nobody sees one move.
_PAUSE = 10.0


def run_sweep(given: argparse.Namespace) -> int:
    """Run `diffsim sweep`; 3 where runs failed, 130 where it was stopped.

    What is wrong with the command, or with `predict`, ends in 1 or 2.
    """
    if given.status is not None:
        print(store_status(given.status))
        return 0
    if given.predict is None or given.file is None or given.store is None:
        raise ValueError(
            "write diffsim sweep module:function sweep.toml --store runs.zarr, or "
            "diffsim sweep --status runs.zarr"
        )
    if given.cpu_devices is not None:
        configure(num_cpu_devices=given.cpu_devices)
    described = read_sweep_file(given.file)
    settings = dict(described.settings)
    configure(enable_x64=settings.pop("float64", True))
    predict, model = named_object(given.predict), named_object(described.model)
    if not callable(predict):
        raise ValueError(f"{given.predict} is no function but {predict!r:.60}")
    if callable(model) and not isinstance(model, eqx.Module):
        function_of(described.model, model, ())
        model = model()
    limits = {name: settings.pop(name, None) for name in ("chunk", "memory")}
    options = SweepOptions(
        part=given.part,
        retry="failed" if given.retry_failed else None,
        **limits,
    )
    return _run(given.store, predict, model, described.over, settings, options)


def _run(
    store: str,
    predict: Any,
    model: Any,
    over: Any,
    settings: dict[str, Any],
    options: SweepOptions,
) -> int:
    line = _ProgressLine()
    options = SweepOptions(**{**vars(options), "progress": line.show})
    before = signal.signal(signal.SIGINT, line.stop)
    try:
        found = sweep(predict, model, over, store=store, options=options, **settings)
    except KeyboardInterrupt:
        print(f"\ndiffsim sweep: stopped; {store_status(store)}", file=sys.stderr)
        print("The same command goes on from there.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    line.end()
    print(found)
    print(f"in {store}: {store_status(store)}")
    return 0 if found.successful.all() else 3


class _ProgressLine:
    """Runs done, how many failed, how many a second, and the time that is left."""

    def __init__(self):
        self.begun = self.shown = time.monotonic()
        self.first: int | None = None
        self.stopping = False
        self.moves = sys.stderr.isatty()

    def show(self, state: dict[str, Any]):
        """Take news of a chunk, and end the sweep if that was asked for."""
        if self.first is None:
            self.begun, self.first = time.monotonic(), state["done"]
        now, last = time.monotonic(), state["done"] == state["runs"]
        if self.moves or last or now - self.shown > _PAUSE:
            self.shown = now
            text = self._text(state, now - self.begun)
            if self.moves:
                show_line(text)
            else:
                print(text, file=sys.stderr, flush=True)
        if self.stopping and not last:
            raise KeyboardInterrupt

    def _text(self, state: dict[str, Any], seconds: float) -> str:
        done, runs = state["done"], state["runs"]
        rate = (done - (self.first or 0)) / seconds if seconds > 0 else 0.0
        parts = [f"{done} of {runs} runs", f"{state['failed']} failed"]
        if rate:
            left = datetime.timedelta(seconds=round((runs - done) / rate))
            parts += [f"{rate:.3g} runs/s", f"{left} left"]
        return progress_text("sweep", *parts)

    def stop(self, *_: Any):
        """Finish the chunk; a second time, stop at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        text = "finishing the chunk; once more stops at once, and loses it"
        print(f"\ndiffsim sweep: {text}", file=sys.stderr, flush=True)

    def end(self):
        """Leave the line where it is."""
        if self.moves:
            print(file=sys.stderr)


#: Ways to say what the runs are; a file has one of them.
_SAMPLES = "over", "grid", "latin_hypercube", "sobol", "from_prior"
#: Settings, and what they may be.
_SETTINGS = {
    "batch": (int,),
    "chunk": (int,),
    "memory": (int,),
    "derivative": (str,),
    "error_estimate": (bool,),
    "float64": (bool,),
}


class SweepFile(NamedTuple):
    """A sweep as its file says it."""

    model: str
    over: Mapping[str, Any]
    settings: dict[str, Any]


def read_sweep_file(path: Path) -> SweepFile:
    """The sweep that a TOML file describes; a sentence for what it cannot mean."""
    try:
        return _sweep_of(tomllib.loads(path.read_text("utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise ValueError(
            f"{path} nests lists or tables too deeply; write paths as keys in quotes, "
            '"bodies.masses" = [1.0, 2.0]'
        ) from None
    except (ValueError, MemoryError) as error:
        raise ValueError(f"{path}: {error}") from None


def _sweep_of(content: dict[str, Any]) -> SweepFile:
    _check_names("", content, ("model", *_SAMPLES, "settings"))
    samples = [name for name in _SAMPLES if name in content]
    if len(samples) != 1:
        raise ValueError(
            f"the file must have one of the tables {', '.join(_SAMPLES)}, which say "
            f"what the runs are; it has {samples or 'none'}"
        )
    model = content.get("model")
    if not isinstance(model, str) or ":" not in model:
        raise ValueError(
            'the file must say model = "module:name", of an object or of a function '
            f"that makes one; got {model!r:.60}"
        )
    settings = content.get("settings", {})
    _check_names("settings.", settings, tuple(_SETTINGS))
    for name, value in settings.items():
        if type(value) not in _SETTINGS[name]:
            kind = _SETTINGS[name][0].__name__
            raise ValueError(f"settings.{name} must be {kind}, got {value!r:.60}")
    return SweepFile(model, _samples(samples[0], content[samples[0]]), settings)


def _check_names(under: str, table: Any, known: Any):
    if not isinstance(table, Mapping):
        raise ValueError(f"{under.rstrip('.')} must be a table, got {table!r:.60}")
    for name in table:
        if name not in known:
            raise ValueError(
                f"{under}{name} means nothing; {closest_matches(name, known)}"
            )


def _samples(kind: str, table: Any) -> Mapping[str, Any]:
    if kind in ("over", "grid"):
        _check_names(kind, table, table)
        axes = {name: _values(f"{kind}.{name}", x) for name, x in table.items()}
        return axes if kind == "over" else sweeps.grid(axes)
    _check_names(f"{kind}.", table, ("runs", "seed", "free"))
    missing = [name for name in ("runs", "seed", "free") if name not in table]
    if missing:
        raise ValueError(
            f"{kind} must have runs, seed and free; {', '.join(missing)} is missing"
        )
    _check_names(f"{kind}.free", table["free"], table["free"])
    free = {name: _free(f"free.{name}", x) for name, x in table["free"].items()}
    draw = getattr(sweeps, kind)
    return draw(free, table["runs"], seed=table["seed"])


def _values(name: str, given: Any) -> np.ndarray:
    """A list of values, or a range of them."""
    if isinstance(given, list):
        _check_numbers(name, given, np.inf)
        return np.asarray(given)
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{name} must be a list of values, or {{start = 0.1, stop = 2.0, "
            f"number = 20}}, got {given!r:.60}"
        )
    _check_names(f"{name}.", given, ("start", "stop", "number", "spacing"))
    try:
        start, stop, number = given["start"], given["stop"], given["number"]
    except KeyError as missing:
        raise ValueError(
            f"{name} must be a list of values, or start, stop and number; "
            f"{missing} is missing"
        ) from None
    for side in ("start", "stop"):
        _check_numbers(f"{name}.{side}", given[side], sys.float_info.max)
    if type(number) is not int or number < 1:
        raise ValueError(
            f"{name}.number must be a whole number from 1, got {number!r:.60}"
        )
    spacing = given.get("spacing", "linear")
    if spacing not in ("linear", "log"):
        raise ValueError(
            f"{name}.spacing must be 'linear' or 'log', got {spacing!r:.60}"
        )
    space = np.linspace if spacing == "linear" else np.geomspace
    try:
        with np.errstate(all="ignore"):
            values = space(np.asarray(start, float), np.asarray(stop, float), number)
    except (ValueError, MemoryError) as error:
        raise ValueError(f"{name} makes no values: {error}") from None
    finite(f"{name}, from start to stop,", values)
    return values


def _check_numbers(name: str, given: Any, most: float):
    """Raise `ValueError` unless these are numbers up to `most`, or lists of such."""
    flat = np.ravel(np.asarray(given, object))
    if not all(type(x) in (int, float) and abs(x) <= most for x in flat):
        raise ValueError(
            f"{name} must be numbers from {-most:g} to {most:g}, or lists of them of "
            f"one length, got {given!r:.60}"
        )


def _free(name: str, given: Any) -> Free | list[Any]:
    """A pair (lower, upper), or what `ds.Free` takes."""
    if isinstance(given, list):
        return given
    _check_names(f"{name}.", given, ("bounds", "prior", "transform"))
    try:
        return Free(**given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def named_object(name: str) -> object:
    """The object that `module:name` means, looked for from the current folder on."""
    module, separator, attribute = name.partition(":")
    if not separator or "" in (*module.split("."), *attribute.split(".")):
        raise ValueError(f"write module:name, as in mymodel:predict, got {name!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    _check_not_standard(name, module)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ValueError(
            f"{name!r}: there is no module {module!r}, neither in {here} nor installed"
        ) from None
    for step in attribute.split("."):
        if not hasattr(found, step):
            near = closest_matches(step, [x for x in dir(found) if x[0] != "_"])
            raise ValueError(f"{name!r}: {module} has no {attribute!r}; {near}")
        found = getattr(found, step)
        if inspect.ismodule(found):
            _check_not_standard(name, found.__name__)
        elif inspect.isroutine(found) or inspect.isclass(found):
            _check_not_standard(name, str(getattr(found, "__module__", "")))
    return found


def _check_not_standard(name: str, module: str):
    """Refuse the standard library, whose `os:abort` would be called as a model is."""
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names and not os.path.exists(f"{first}.py"):
        raise ValueError(
            f"{name!r} must be of a module of yours or of a package, got {module!r} of "
            "Python's standard library; write a function of your own that calls it"
        )
