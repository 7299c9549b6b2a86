"""What GPUs can do at most, from their makers' data sheets."""

import jax


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
