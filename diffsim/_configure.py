"""`configure`: settings of JAX and XLA that decide how long one waits."""

import importlib.metadata
import os
import pathlib
import re
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from ._validation import count, instance, one_of


#: XLA's name for the bytes that a pass through a loop may touch in one kernel.
_LIMIT = "xla_cpu_small_while_loop_byte_threshold"
# Adaptive runs of five bodies need 64 kB. XLA adds up options of several flags, and of
# two numbers for one option takes the last.
_FUSION = f"--xla_backend_extra_options={_LIMIT}=1048576"
_FLAGS = "XLA_FLAGS"
# By measurement: 0.10.0 to 0.11.2 stop at 1 kB, 0.12.0 does as 0.11.2 with the flag.
_FUSES_BY_ITSELF = (0, 12)


def configure(
    *,
    enable_x64: bool | None = None,
    num_cpu_devices: int | None = None,
    compilation_cache_dir: str | os.PathLike[str] | None = None,
    cpu_loop_fusion: bool | None = None,
) -> None:
    """Change settings of JAX, right after the imports and before the first array.

    diffsim changes none of them by itself; None leaves a setting as it is. A call that
    asks for what is in force already may come at any time, so that a cell of a notebook
    can be run again. `diffsim info` prints what is in force.

    **Arguments**

    - `enable_x64`: whether arrays are float64 by default; may change at any time.
    - `num_cpu_devices`: into how many devices JAX divides the processor, from 1.
    - `compilation_cache_dir`: a folder, made where there is none, in which compiled
      programs are kept for the next process, small and quick ones as well; JAX by
      itself keeps those that took a second. May change at any time.
    - `cpu_loop_fusion`: True has XLA compile a loop whose pass touches less than 1 MB
      into one kernel on a CPU, as JAX 0.12 does by itself; JAX 0.10 and 0.11 run it
      kernel by kernel. That is a flag in the environment variable `XLA_FLAGS`, which
      processes started later inherit. Other flags there stay, and so does a limit for
      loops that you have set; from JAX 0.12 on nothing is added. False takes the flag
      out again.

    **Good values:** `enable_x64=True` for fits; `cpu_loop_fusion=True` always;
    `compilation_cache_dir="~/.cache/diffsim"` on a machine of your own, as whoever can
    write there decides what your programs run.

    **Raises:** `RuntimeError` where JAX has started, by an array or `jax.devices()`,
    and reads a setting at its start only; then nothing is changed. `ValueError` for
    what is no setting.

    **Limits:** JAX keeps what it compiles until you delete the folder (convenience);
    JAX 0.10 keeps no program that may call Python, as checks inside a `jit` of yours
    do (convenience of JAX).
    """
    one_of("enable_x64", enable_x64, (None, True, False))
    one_of("cpu_loop_fusion", cpu_loop_fusion, (None, True, False))
    if num_cpu_devices is not None:
        cores = f"os.cpu_count() is {os.cpu_count()}"
        num_cpu_devices = count("num_cpu_devices", num_cpu_devices, hint=cores)
    _check_start(num_cpu_devices, cpu_loop_fusion)
    if compilation_cache_dir is not None:
        folder = _made_folder("compilation_cache_dir", compilation_cache_dir)
        jax.config.update("jax_compilation_cache_dir", folder)
        # JAX's own second keeps nothing of a run, which is many programs of less.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        # Else a folder that JAX has used before is used to the end.
        compilation_cache.reset_cache()
    if enable_x64 is not None:
        jax.config.update("jax_enable_x64", enable_x64)
    if num_cpu_devices is not None and not _jax_has_started():
        jax.config.update("jax_num_cpu_devices", num_cpu_devices)
    if cpu_loop_fusion is not None:
        flags = _flags_with(cpu_loop_fusion)
        if flags != _xla_flags():
            os.environ[_FLAGS] = flags
            if not flags:
                del os.environ[_FLAGS]


def loop_fusion() -> str:
    """Return whether small loops are one kernel on a CPU, and what decides it."""
    limits = re.findall(rf"{_LIMIT}=(\d+)", _xla_flags())
    if limits:
        return f"up to {limits[-1]} bytes a pass, by {_FLAGS}"
    return f"{'on' if _fuses_by_itself() else 'off'}, by jaxlib {_jaxlib()}"


def _jaxlib() -> str:
    return importlib.metadata.version("jaxlib")


def _fuses_by_itself() -> bool:
    return tuple(map(int, _jaxlib().split(".")[:2])) >= _FUSES_BY_ITSELF


def _xla_flags() -> str:
    """Return the flags that XLA reads as it starts."""
    flags = os.environ.get(_FLAGS, "").strip()
    # A text that does not begin like a flag names a file of flags.
    named = flags and not flags.startswith("-")
    return pathlib.Path(flags).read_text().strip() if named else flags


def _flags_with(fusion: bool) -> str:
    """Return the flags of `XLA_FLAGS` with ours among them, or without."""
    flags = _xla_flags()
    if not fusion:
        return re.sub(rf"(^|\s+){re.escape(_FUSION)}(?=\s|$)", "", flags).strip()
    if _fuses_by_itself() or _LIMIT in flags:
        return flags
    return f"{flags} {_FUSION}".strip()


def _check_start(num_cpu_devices: int | None, cpu_loop_fusion: bool | None):
    """Raise `RuntimeError` for settings that JAX, which has started, reads no more."""
    flags_change = (
        cpu_loop_fusion is not None and _flags_with(cpu_loop_fusion) != _xla_flags()
    )
    if not (flags_change or num_cpu_devices) or not _jax_has_started():
        return
    late = [f"cpu_loop_fusion={cpu_loop_fusion}"] if flags_change else []
    if num_cpu_devices not in (None, len(jax.local_devices(backend="cpu"))):
        late.append(f"num_cpu_devices={num_cpu_devices}")
    if late:
        raise RuntimeError(
            f"{' and '.join(late)} must be set before JAX starts, and it has, by an "
            "array or jax.devices(); call diffsim.configure right after the imports, "
            "in a notebook after a restart of its kernel"
        )


def _jax_has_started() -> bool:
    # JAX does not say so, but refuses any other number of devices once it has started.
    devices: int = jax.config.jax_num_cpu_devices  # pyright: ignore[reportAttributeAccessIssue]
    try:
        jax.config.update("jax_num_cpu_devices", devices + 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", devices)
    return False


def _made_folder(name: str, path: Any) -> str:
    """Return the folder as JAX takes it, made where there is none."""
    example = '"~/.cache/diffsim"'
    instance(name, path or None, str | os.PathLike, example)
    folder = os.fspath(path)
    if "://" in folder:  # of a bucket, which JAX makes
        return folder
    folder = os.path.abspath(os.path.expanduser(folder))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{name} must be a folder that exists or can be made, got {folder!r}: "
            f"{error.strerror}; name one in your home, {example}"
        ) from error
    return folder
