"""10^5 and 10^6 systems of 5 bodies through `sweep` on a GPU."""

import jax.numpy as jnp
import numpy as np

from .._harness import Case, Effort, Row, contest
from . import _five_bodies as five
from ._devices import FLOPS_A_PAIR, peak_flops
from ._family import family, looping, sweeping, worst


#: Systems that REBOUND integrates for comparison.
_COMPARED = 4


def measure(effort: Effort) -> list[Row]:
    """The whole call of `sweep`; REBOUND's loop on one core, scaled up from a few."""
    return [
        _of(effort, family(effort.size(systems, 32)), effort.size(steps, 100))
        for systems, steps in ((100_000, 12_500), (1_000_000, 2000))
    ]


CASE = Case("gpu_sweep", __doc__ or "", measure, device="gpu")


def _of(effort: Effort, masses: np.ndarray, steps: int) -> Row:
    outputs = np.arange(1, 11) * (steps // 10) * five.STEP
    sweep, few = sweeping(masses, outputs), masses[:_COMPARED]
    first = sweep()
    times = contest(effort, sweep=lambda: sweep, rebound=looping(few, outputs))
    loop = times["rebound"].best / few.size * masses.size
    run, peak = sweep().stats["run_seconds"], peak_flops(jnp.float64)
    flops = masses.size * steps * 5 * 4 * FLOPS_A_PAIR / run
    return Row(
        f"`sweep` of {masses.size} systems of 5 bodies, {steps} steps, float64",
        times["sweep"].best / loop,
        peer="REBOUND's loop on one core",
        seconds=times["sweep"].best,
        peer_seconds=loop,
        error=worst(first, few, outputs),
        reference="REBOUND",
        compile_seconds=first.stats["compile_seconds"],
        noise=times["sweep"].noise,
        details={
            "runs_per_second": masses.size / times["sweep"].best,
            "system_steps_per_second": masses.size * steps / times["sweep"].best,
            "run_seconds": run,
            "order": first.stats["order"],
            "share_of_fp64_peak": None if peak is None else flops / peak,
            "flops_a_pair": FLOPS_A_PAIR,
        },
    )
