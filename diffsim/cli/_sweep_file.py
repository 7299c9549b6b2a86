"""Files that describe sweeps: a model, samples of its parameters, settings; no code."""

import importlib
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import sweeps
from .._paths import closest_matches
from ..inference import Free


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
        content = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    _check_names(path, content, ("model", *_SAMPLES, "settings"), "")
    samples = [name for name in _SAMPLES if name in content]
    if len(samples) != 1:
        raise ValueError(
            f"{path} must have one of the tables {', '.join(_SAMPLES)}, which say what "
            f"the runs are; it has {samples or 'none'}"
        )
    model = content.get("model")
    if not isinstance(model, str) or ":" not in model:
        raise ValueError(
            f'{path} must say model = "module:name", of an object or of a function '
            f"that makes one; got {model!r}"
        )
    settings = content.get("settings", {})
    _check_names(path, settings, tuple(_SETTINGS), "settings.")
    for name, value in settings.items():
        if type(value) not in _SETTINGS[name]:
            kind = _SETTINGS[name][0].__name__
            raise ValueError(f"{path}: settings.{name} must be {kind}, got {value!r}")
    over = _samples(path, samples[0], content[samples[0]])
    return SweepFile(model, over, settings)


def _check_names(path: Path, table: Any, known: tuple[str, ...], under: str):
    if not isinstance(table, Mapping):
        raise ValueError(f"{path}: {under.rstrip('.')} must be a table, got {table!r}")
    for name in table:
        if name not in known:
            raise ValueError(
                f"{path}: {under}{name} means nothing; {closest_matches(name, known)}"
            )


def _samples(path: Path, kind: str, table: Any) -> Mapping[str, Any]:
    if kind in ("over", "grid"):
        _check_names(path, table, tuple(table), kind)
        axes = {name: _values(path, f"{kind}.{name}", x) for name, x in table.items()}
        return axes if kind == "over" else sweeps.grid(axes)
    _check_names(path, table, ("runs", "seed", "free"), f"{kind}.")
    missing = [name for name in ("runs", "seed", "free") if name not in table]
    if missing:
        raise ValueError(
            f"{path}: {kind} must have runs, seed and free; {', '.join(missing)} is "
            "missing"
        )
    free = {name: _free(path, name, x) for name, x in table["free"].items()}
    draw = getattr(sweeps, kind)
    return draw(free, table["runs"], seed=table["seed"])


def _values(path: Path, name: str, given: Any) -> np.ndarray:
    """A list of values, or a range of them."""
    if isinstance(given, list):
        return np.asarray(given)
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{path}: {name} must be a list of values, or {{start = 0.1, stop = 2.0, "
            f"number = 20}}, got {given!r}"
        )
    _check_names(path, given, ("start", "stop", "number", "spacing"), f"{name}.")
    try:
        start, stop, number = given["start"], given["stop"], given["number"]
    except KeyError as missing:
        raise ValueError(
            f"{path}: {name} must be a list of values, or start, stop and number; "
            f"{missing} is missing"
        ) from None
    spacings = {"linear": np.linspace, "log": np.geomspace}
    spacing = given.get("spacing", "linear")
    if spacing not in spacings:
        raise ValueError(
            f"{path}: {name}.spacing must be 'linear' or 'log', got {spacing!r}"
        )
    return spacings[spacing](start, stop, number)


def _free(path: Path, name: str, given: Any) -> Free | tuple[Any, ...]:
    """A pair (lower, upper), or what `ds.Free` takes."""
    if isinstance(given, list):
        return tuple(given)
    known = ("bounds", "prior", "transform")
    _check_names(path, given, known, f"free.{name}.")
    bounds, prior = (
        tuple(given[key]) if key in given else None for key in ("bounds", "prior")
    )
    return Free(bounds=bounds, prior=prior, transform=given.get("transform"))


def named_object(name: str) -> object:
    """The object that `module:name` means, looked for from the current folder on."""
    module, separator, attribute = name.partition(":")
    if not separator or not module or not attribute:
        raise ValueError(f"write module:name, as in mymodel:predict, got {name!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
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
    return found
