"""Direct summation over 1e5 and 1e6 bodies on a GPU, float32, with its gradient."""

import jax
import jax.numpy as jnp
import numpy as np

from .._harness import Case, Effort, Row, compiled, contest, deviation
from ._cluster import (
    accelerations,
    cluster,
    first_accelerations,
    sum_of_squares,
)
from ._devices import FLOPS_A_PAIR, peak_flops


def measure(effort: Effort) -> list[Row]:
    """Pairs a second of the force, and how many forces a gradient costs."""
    sizes = (effort.size(100_000, 256), effort.size(1_000_000, 512))
    return [row for bodies in sizes for row in _of_size(effort, bodies)]


CASE = Case("gpu_direct_sum", __doc__ or "", measure, device="gpu")


def _of_size(effort: Effort, bodies: int) -> list[Row]:
    start = [jnp.float32(a) for a in cluster(bodies)[:2]]
    force = compiled(accelerations, *start)
    gradient = compiled(jax.grad(sum_of_squares, (0, 1)), *start)
    times = contest(effort, force=force.turn, gradient=gradient.turn)
    exact = first_accelerations(*start)
    rate, peak = bodies**2 / times["force"].best, peak_flops(jnp.float32)
    share = None if peak is None else rate * FLOPS_A_PAIR / peak
    return [
        Row(
            f"direct sum, {bodies} bodies, float32",
            rate,
            unit="pairs/s",
            seconds=times["force"].best,
            error=deviation(np.asarray(force.value)[: len(exact)], exact),
            reference="NumPy, float64",
            compile_seconds=force.compile_seconds,
            memory_bytes=force.memory_bytes,
            noise=times["force"].noise,
            details={"share_of_fp32_peak": share, "flops_a_pair": FLOPS_A_PAIR},
        ),
        Row(
            f"gradient of direct sum, {bodies} bodies, float32",
            times["gradient"].best / times["force"].best,
            peer="the force itself",
            seconds=times["gradient"].best,
            peer_seconds=times["force"].best,
            compile_seconds=gradient.compile_seconds,
            memory_bytes=gradient.memory_bytes,
            noise=times["gradient"].noise,
        ),
    ]
