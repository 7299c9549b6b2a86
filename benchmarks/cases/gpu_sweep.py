"""100 000 systems of 5 bodies through `sweep` on a GPU."""

import numpy as np

from .._harness import Case, Effort, Row, contest
from . import _five_bodies as five
from ._family import family, looping, sweeping, worst


#: Systems that REBOUND integrates for comparison.
_COMPARED = 4


def measure(effort: Effort) -> list[Row]:
    """The whole call of `sweep`; REBOUND's loop on one core, scaled up from a few."""
    masses, steps = family(effort.size(100_000, 32)), effort.size(12_500, 100)
    outputs = np.arange(1, 11) * (steps // 10) * five.STEP
    sweep, few = sweeping(masses, outputs), masses[:_COMPARED]
    first = sweep()
    times = contest(effort, sweep=lambda: sweep, rebound=looping(few, outputs))
    seconds = times["sweep"].best
    loop = times["rebound"].best / few.size * masses.size
    return [
        Row(
            f"`sweep` of {masses.size} systems of 5 bodies, {steps} steps, float64",
            seconds / loop,
            peer="REBOUND's loop on one core",
            seconds=seconds,
            peer_seconds=loop,
            error=worst(first, few, outputs),
            reference="REBOUND",
            compile_seconds=first.stats["compile_seconds"],
            noise=times["sweep"].noise,
            details={
                "system_steps_per_second": masses.size * steps / seconds,
                "run_seconds": sweep().stats["run_seconds"],
            },
        )
    ]


CASE = Case("gpu_sweep", __doc__ or "", measure, device="gpu")
