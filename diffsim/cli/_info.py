"""`info`: what a bug report should say first."""

import importlib.metadata
import platform
import sys

import jax


_PACKAGES = (
    "diffsim",
    "jax",
    "jaxlib",
    "equinox",
    "diffrax",
    "optimistix",
    "lineax",
    "optax",
    "jaxtyping",
    "numpy",
)
_EXTRAS = ("matplotlib", "tqdm")


def info() -> str:
    """Versions, devices, and whether JAX computes in float64 from the start."""
    lines = [
        f"python      {platform.python_version()} on {platform.platform()}",
        *(_version(name) for name in (*_PACKAGES, *_EXTRAS)),
    ]
    for device in jax.devices():
        lines.append(f"device      {device.platform}:{device.id} {device.device_kind}")
    return "\n".join([*lines, f"float64     {_precision()}"])


def _version(name: str) -> str:
    try:
        return f"{name:11} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        if name == "diffsim":
            return f"{name:11} not installed, imported from {sys.path[0] or '.'}"
        return f"{name:11} not installed"


def _precision() -> str:
    if jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        return "on"
    return (
        'off, JAX\'s default; jax.config.update("jax_enable_x64", True) or the '
        "environment variable JAX_ENABLE_X64=1 switches it on (diffsim demo and "
        "diffsim verify do)"
    )
