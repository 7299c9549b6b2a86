"""64 systems of 5 bodies through `sweep`, against REBOUND looping over them."""

import jax
import numpy as np

from .._harness import Case, Effort, Row, compiled, contest, ratio
from . import _five_bodies as five
from ._family import family, looping, sweeping, worst


def measure(effort: Effort) -> list[Row]:
    """The whole call of `sweep`, once it is compiled, and what a plain vmap takes."""
    problem, masses = five.problem(effort), family(effort.size(64, 4))
    sweep = sweeping(masses, problem.times)
    first = sweep()
    naive = compiled(
        jax.vmap(lambda vector: five.states(vector, problem.times)),
        np.stack([five.start(mass) for mass in masses]),
    )
    rebound = looping(masses, problem.times)
    times = contest(effort, sweep=lambda: sweep, rebound=rebound, vmap=naive.turn)
    what = f"{masses.size} systems of 5 bodies, {problem.steps} steps"
    peer = "REBOUND's loop"
    stats = {key: first.stats[key] for key in ("batch", "order", "chunks")}
    swept = ratio(
        f"`sweep` of {what}",
        times["sweep"],
        times["rebound"],
        peer=peer,
        target=0.5,
        error=worst(first, masses, problem.times),
        reference="REBOUND",
        compile_seconds=first.stats["compile_seconds"],
        details=stats | {"run_seconds": sweep().stats["run_seconds"]},
    )
    vmapped = f"plain `jax.vmap` of {what}"
    against = {"program": naive, "peer": peer}
    return [swept, ratio(vmapped, times["vmap"], times["rebound"], **against)]


CASE = Case("sweep_64x5", __doc__ or "", measure)
