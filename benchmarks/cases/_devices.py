"""Peak rates of devices: by their makers' data sheets, and by a copy."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


#: Non-tensor FP32, dense, SXM where there are several: TFLOP/s.
_FP32_TFLOPS = {
    "H200": 66.9,
    "H100": 66.9,
    "A100": 19.5,
    "V100": 15.7,
    "L40S": 91.6,
    "L4": 30.3,
    "T4": 8.1,
    "RTX 4090": 82.6,
    "RTX 3090": 35.6,
}


def fp32_flops() -> float | None:
    """Peak of the device in use; None for one that is not in the table."""
    kind = jax.devices()[0].device_kind
    # The longest name first: L40S contains L4.
    for name in sorted(_FP32_TFLOPS, key=len, reverse=True):
        if name in kind:
            return 1e12 * _FP32_TFLOPS[name]
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
