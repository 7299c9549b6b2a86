"""Peak rates of devices: by their makers' data sheets, and by a copy."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


#: As the literature counts: a pair of the force is 20 floating-point operations.
FLOPS_A_PAIR = 20

#: By the makers' data sheets: FP32 and FP64 without tensor cores, in TFLOP/s, and
#: memory in TB/s. A plain name is that of the SXM module where there are several.
_PEAKS = {
    "H200": (66.9, 33.5, 4.8),
    "H100": (66.9, 33.5, 3.35),
    "H100 NVL": (60.0, 30.0, 3.9),
    "H100 PCIe": (51.2, 25.6, 2.04),
    "A100": (19.5, 9.7, 2.04),
    "V100": (15.7, 7.8, 0.9),
    "L40S": (91.6, 1.4, 0.864),
    "L4": (30.3, 0.47, 0.3),
    "T4": (8.1, 0.25, 0.32),
    "RTX 4090": (82.6, 1.3, 1.008),
    "RTX 3090": (35.6, 0.56, 0.936),
}


def peak_flops(dtype: Any) -> float | None:
    """Peak of the device in use; None for one that is not in the table."""
    peaks = _peaks()
    return None if peaks is None else 1e12 * peaks[jnp.dtype(dtype).itemsize == 8]


def peak_bandwidth() -> float | None:
    """Bytes a second of the memory of the device in use, likewise."""
    peaks = _peaks()
    return None if peaks is None else 1e12 * peaks[2]


def _peaks() -> tuple[float, float, float] | None:
    kind = jax.devices()[0].device_kind
    # The longest name first: L40S contains L4.
    names = sorted(_PEAKS, key=len, reverse=True)
    return next((_PEAKS[name] for name in names if name in kind), None)


def share_of_flops(flops: float, seconds: float, dtype: Any) -> dict[str, Any]:
    """Floating-point operations a second, and beside the peak of the device."""
    rate, peak = flops / seconds, peak_flops(dtype)
    bits = 8 * jnp.dtype(dtype).itemsize
    share = None if peak is None else rate / peak
    return {"flops_per_second": rate, f"share_of_fp{bits}_peak": share}


def share_of_bandwidth(moved: float, seconds: float) -> dict[str, Any]:
    """Bytes a second, and beside those that the memory of the device can move."""
    rate, peak = moved / seconds, peak_bandwidth()
    share = None if peak is None else rate / peak
    return {"bytes_per_second": rate, "share_of_bandwidth": share}


def traffic(function: Callable[..., Any], *given: Any) -> float:
    """Bytes that XLA counts as read and written; a loop counts once."""
    program = jax.jit(function).lower(*given).compile()
    return float((program.cost_analysis() or {})["bytes accessed"])


@functools.cache
def copy_bandwidth() -> float:
    """Bytes a second that a copy of 256 MiB reads and writes, the best of ten."""
    block = jnp.zeros(2**26, jnp.float32)
    copy = jax.jit(lambda a: a + 1)
    times = []
    for _ in range(11):
        start = time.perf_counter()
        jax.block_until_ready(copy(block))
        times.append(time.perf_counter() - start)
    return 2 * block.nbytes / min(times)
