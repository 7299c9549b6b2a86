"""The machine that numbers were measured on: no host name, no path."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
from typing import Any

import jax

# No public function says it; `diffsim info` prints it.
from diffsim._configure import loop_fusion

from ._one_thread import ONE_THREAD


#: What decides the numbers; None where it is not installed.
_PACKAGES = (
    "diffsim",
    "jax",
    "jaxlib",
    "diffrax",
    "equinox",
    "rebound",
    "exponax",
    "numba",
    "py-pde",
)


def machine(one_thread: bool, *, by_release: bool = False) -> dict[str, Any]:
    """The processor, or the GPU if JAX computes on one, and what XLA was told.

    `by_release` names the release of JAX with it.
    """
    device = jax.devices()[0]
    on_gpu = device.platform != "cpu"
    processor = device.device_kind if on_gpu else _cpu_model()
    release = [f"JAX {jax.__version__}"] if by_release else []
    return {
        "processor": ", ".join([processor, *release, *_told()]),
        "device": "gpu" if on_gpu else "cpu",
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "threads": 1 if one_thread else None,
        "cpu_loop_fusion": loop_fusion(),
    }


def versions() -> dict[str, str | None]:
    """Of Python and of every package that decides the numbers."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def today() -> str:
    """The date of the measurement."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def slug(processor: str) -> str:
    """`AMD EPYC` as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")


def _told() -> list[str]:
    """The flags that programs were compiled with, but for that of `one_thread`."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    return [flag for flag in flags if flag != ONE_THREAD]


def _cpu_model() -> str:
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    if found:
        return re.sub(r"\((R|TM)\)|CPU|@.*", "", found[1]).strip()
    return platform.processor() or platform.machine()
