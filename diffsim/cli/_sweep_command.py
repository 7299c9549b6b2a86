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
from .._validation import count, finite, function_of, one_of
from ..inference import Free
from ..sweeps import SweepOptions, store_status, sweep


#: Seconds between two lines where nobody sees one move.
_PAUSE = 10.0


def run_sweep(words: argparse.Namespace) -> int:
    """Run `diffsim sweep`; 3 where runs failed, 130 where it was stopped.

    What is wrong with the command, or with `predict`, ends in 1 or 2.
    """
    if words.status is not None:
        print(store_status(words.status))
        return 0
    if words.predict is None or words.file is None or words.store is None:
        raise ValueError(
            "write diffsim sweep module:function sweep.toml --store runs.zarr, or "
            "diffsim sweep --status runs.zarr"
        )
    if words.cpu_devices is not None:
        configure(num_cpu_devices=words.cpu_devices)
    described = read_sweep_file(words.file)
    settings = dict(described.settings)
    configure(enable_x64=settings.pop("float64", True))
    predict: Any = named_object(words.predict)
    model = named_object(described.model)
    function_of(words.predict, predict, ("model",))
    if callable(model) and not isinstance(model, eqx.Module):
        function_of(described.model, model, ())
        model = model()
    line = _ProgressLine()
    options = SweepOptions(
        part=words.part,
        retry="failed" if words.retry_failed else None,
        progress=line.show,
        **{name: settings.pop(name, None) for name in ("chunk", "memory")},
    )
    # The first interrupt finishes the chunk.
    handler = signal.signal(signal.SIGINT, line.stop)
    try:
        outcome = sweep(
            predict,
            model,
            described.over,
            store=words.store,
            options=options,
            **settings,
        )
    except KeyboardInterrupt:
        print(f"\ndiffsim sweep: stopped; {store_status(words.store)}", file=sys.stderr)
        print("The same command goes on from there.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGINT, handler)
    if line.moves:
        print(file=sys.stderr)
    print(outcome)
    print(f"in {words.store}: {store_status(words.store)}")
    return 0 if outcome.successful.all() else 3


class _ProgressLine:
    """Runs done, how many failed, how many a second, and the time that is left."""

    def __init__(self):
        self.started = self.shown = time.monotonic()
        self.first: int | None = None
        self.stopping = False
        self.moves = sys.stderr.isatty()

    def show(self, state: dict[str, Any]):
        """Take news of a chunk, and end the sweep if that was asked for."""
        if self.first is None:
            self.started, self.first = time.monotonic(), state["done"]
        now, last = time.monotonic(), state["done"] == state["runs"]
        if self.moves or last or now - self.shown > _PAUSE:
            self.shown = now
            text = self._text(state, now - self.started)
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
    if not {"runs", "seed", "free"} <= table.keys():
        raise ValueError(f"{kind} must have runs, seed and free, not {sorted(table)}")
    _check_names(f"{kind}.free", table["free"], table["free"])
    free = {name: _free(f"free.{name}", x) for name, x in table["free"].items()}
    return getattr(sweeps, kind)(free, table["runs"], seed=table["seed"])


def _values(name: str, values: Any) -> np.ndarray:
    """A list of values, or a range of them."""
    if isinstance(values, list):
        _check_numbers(name, values, np.inf)
        return np.asarray(values)
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{name} must be a list of values, or {{start = 0.1, stop = 2.0, "
            f"number = 20}}, got {values!r:.60}"
        )
    _check_names(f"{name}.", values, ("start", "stop", "number", "spacing"))
    try:
        start, stop, number = values["start"], values["stop"], values["number"]
    except KeyError as missing:
        raise ValueError(
            f"{name} must be a list of values, or start, stop and number; "
            f"{missing} is missing"
        ) from None
    for side in ("start", "stop"):
        _check_numbers(f"{name}.{side}", values[side], sys.float_info.max)
    count(f"{name}.number", number)
    spacing = values.get("spacing", "linear")
    one_of(f"{name}.spacing", spacing, ("linear", "log"))
    space = np.linspace if spacing == "linear" else np.geomspace
    try:
        with np.errstate(all="ignore"):
            spaced = space(np.asarray(start, float), np.asarray(stop, float), number)
    except (ValueError, MemoryError) as error:
        raise ValueError(f"{name} makes no values: {error}") from None
    finite(f"{name}, from start to stop,", spaced)
    return spaced


def _check_numbers(name: str, given: Any, most: float):
    """Raise `ValueError` unless these are numbers up to `most`, or lists of such."""
    flat = np.ravel(np.asarray(given, object))
    if not all(type(x) in (int, float) and abs(x) <= most for x in flat):
        raise ValueError(
            f"{name} must be numbers from {-most:g} to {most:g}, or lists of them of "
            f"one length, got {given!r:.60}"
        )


def _free(name: str, described: Any) -> Free | list[Any]:
    """A pair (lower, upper), or what `ds.Free` takes."""
    if isinstance(described, list):
        return described
    _check_names(f"{name}.", described, ("bounds", "prior", "transform"))
    try:
        return Free(**described)
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
        member = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ValueError(
            f"{name!r}: there is no module {module!r}, neither in {here} nor installed"
        ) from None
    for step in attribute.split("."):
        if not hasattr(member, step):
            near = closest_matches(step, [x for x in dir(member) if x[0] != "_"])
            raise ValueError(f"{name!r}: {module} has no {attribute!r}; {near}")
        member = getattr(member, step)
        if inspect.ismodule(member):
            _check_not_standard(name, member.__name__)
        elif inspect.isroutine(member) or inspect.isclass(member):
            _check_not_standard(name, str(getattr(member, "__module__", "")))
    return member


def _check_not_standard(name: str, module: str):
    """Refuse the standard library, whose `os:abort` would be called as a model is."""
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names and not os.path.exists(f"{first}.py"):
        raise ValueError(
            f"{name!r} must be of a module of yours or of a package, got {module!r} of "
            "Python's standard library; write a function of your own that calls it"
        )
