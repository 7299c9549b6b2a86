"""Write what a peer answered as JSON that a person can read and a test can rebuild."""

import importlib.metadata
import json
import pathlib
import platform

import numpy as np


def digits(values, count: int = 6):
    """Round to significant digits, so that the data of a problem are short decimals."""
    shape = np.shape(values)
    return np.reshape([float(f"{v:.{count}g}") for v in np.ravel(values)], shape)


def write(peer: str, packages: tuple[str, ...], problems: dict):
    """Write `<peer>.json` beside the scripts: versions first, then the problems."""
    versions = {
        **{name: importlib.metadata.version(name) for name in packages},
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    text = _pretty({"versions": versions, "problems": problems}) + "\n"
    path = pathlib.Path(__file__).with_name(f"{peer}.json")
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(text.encode())} bytes")


def _pretty(value, depth: int = 0) -> str:
    """An entry a line; arrays stay on one line, floats have all their digits."""
    if not isinstance(value, dict):
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    pad = " " * (depth + 1)
    rows = (
        f"{pad}{json.dumps(key, ensure_ascii=False)}: {_pretty(entry, depth + 1)}"
        for key, entry in value.items()
    )
    return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"


def _plain(value):
    """Python's own numbers and lists in place of NumPy's."""
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
