"""Peak rates of devices: by their makers' data sheets, and by a copy."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


#: As the literature counts: a pair of the force is 20 floating-point operations.
FLOPS_A_PAIR = 20

#: Non-tensor FP32 and FP64, dense, SXM where there are several: TFLOP/s.
_TFLOPS = {
    "H200": (66.9, 33.5),
    "H100": (66.9, 33.5),
    "A100": (19.5, 9.7),
    "V100": (15.7, 7.8),
    "L40S": (91.6, 1.4),
    "L4": (30.3, 0.47),
    "T4": (8.1, 0.25),
    "RTX 4090": (82.6, 1.3),
    "RTX 3090": (35.6, 0.56),
}


def peak_flops(dtype: Any) -> float | None:
    """Peak of the device in use; None for one that is not in the table."""
    kind = jax.devices()[0].device_kind
    # The longest name first: L40S contains L4.
    for name in sorted(_TFLOPS, key=len, reverse=True):
        if name in kind:
            return 1e12 * _TFLOPS[name][jnp.dtype(dtype).itemsize == 8]
    return None


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
