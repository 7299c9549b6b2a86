"""`info`: what a bug report should say first."""

import importlib.metadata
import platform
import sys

import jax

from .._configure import loop_fusion


_PACKAGES = (
    *("diffsim", "jax", "jaxlib", "equinox", "diffrax", "optimistix", "lineax"),
    *("optax", "jaxtyping", "numpy", "matplotlib", "tqdm"),
)


def info() -> str:
    """Versions, devices, and the settings of JAX that are in force from the start."""
    lines = [
        f"python      {platform.python_version()} on {platform.platform()}",
        *(_version(name) for name in _PACKAGES),
    ]
    for device in jax.devices():
        lines.append(f"device      {device.platform}:{device.id} {device.device_kind}")
    x64 = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    switch = "switches it on (diffsim demo and diffsim verify do)"
    precision = (
        "off, JAX's default; diffsim.configure(enable_x64=True) or the environment "
        f"variable JAX_ENABLE_X64=1 {switch}"
    )
    try:
        cpu_devices = str(len(jax.local_devices(backend="cpu")))
    except RuntimeError:  # JAX_PLATFORMS names others only
        cpu_devices = "none"
    fusion = loop_fusion()
    if fusion.startswith("off"):
        fusion += f"; diffsim.configure(cpu_loop_fusion=True) {switch}"
    settings = {
        "float64": "on" if x64 else precision,
        "cpu devices": cpu_devices,
        "cache": _cache(),
        "loop fusion": fusion,
    }
    return "\n".join([*lines, *(f"{name:11} {x}" for name, x in settings.items())])


def _version(name: str) -> str:
    try:
        return f"{name:11} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        if name == "diffsim":
            return f"{name:11} not installed, imported from {sys.path[0] or '.'}"
        return f"{name:11} not installed"


def _cache() -> str:
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if not folder:
        return (
            "off; diffsim.configure(compilation_cache_dir=...) keeps compiled programs"
        )
    if not jax.config.jax_enable_compilation_cache:  # pyright: ignore[reportAttributeAccessIssue]
        return "off, by jax_enable_compilation_cache"
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs  # pyright: ignore[reportAttributeAccessIssue]
    return f"{folder}, programs that compile for {seconds:g} s or more"
