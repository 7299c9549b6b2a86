"""`python -m benchmarks.fresh.shared_sweeps bodies 2`: one sweep on so many cores.

A process of its own, as JAX divides the processor before it starts. On one core it is
tied to that, as XLA's own threads take others as well.
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable


#: Sizes by task: runs and steps, and those of a tiny run.
SIZES = {"bodies": ((4096, 10_000), (128, 50)), "field": ((64, 60), (4, 10))}
_REPEATS = 3


def main():
    """Print the best time of a sweep and a digest of what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=SIZES)
    parser.add_argument("devices", type=int)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--tied", action="store_true", help="all devices on one core")
    parser.add_argument("--hosts", type=int, nargs=3, metavar=("PORT", "I", "N"))
    options = parser.parse_args()
    # What a benchmark on one core has set is not meant for this one.
    for name in ("NPROC", "XLA_FLAGS"):
        os.environ.pop(name, None)
    if hasattr(os, "sched_setaffinity"):
        every = sorted(range(os.cpu_count() or 1))
        first = options.hosts[1] if options.hosts else 0
        spread = options.devices > 1 and not options.tied
        here = every if spread else [every[first % len(every)]]
        os.sched_setaffinity(0, here)
    _configure(options.devices, options.hosts)
    run = _sweeping(options.task, *SIZES[options.task][options.tiny])
    found, times = run(), []
    for _ in range(1 if options.tiny else _REPEATS):
        start = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - start)
    digest = hashlib.blake2b(found.tobytes()).hexdigest()
    print(json.dumps({"seconds": min(times), "digest": digest}))


def _configure(devices: int, hosts: list[int] | None):
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", devices)
    if hosts is not None:
        port, index, count = hosts
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)


def _sweeping(task: str, runs: int, steps: int) -> Callable:
    """Return the sweep: its numbers at the end of every run."""
    return {"bodies": _bodies, "field": _field}[task](runs, steps)


def _bodies(runs: int, steps: int) -> Callable:
    import numpy as np

    import diffsim as ds
    from diffsim import integrators

    from ..cases import _five_bodies as five
    from ..cases._family import family

    model, masses = five.system(five.start()), family(runs)
    method, times = ds.Method(integrators.Leapfrog(), step=five.STEP), steps * five.STEP

    def predict(model):
        return ds.simulate(model, times, method).states.positions

    def run():
        over = {"bodies.masses[1]": masses}
        return np.asarray(ds.sweep(predict, model, over, batch=64).outputs)

    return run


def _field(runs: int, steps: int) -> Callable:
    import jax.numpy as jnp
    import numpy as np

    import diffsim as ds
    from diffsim import integrators, pde

    grid = pde.Grid((128, 128))
    model = pde.Evolution(
        pde.Burgers(1e-2), lambda x: jnp.sin(2 * jnp.pi * (x[0] + x[1])), grid
    )
    method, end = ds.Method(integrators.SSPRK3(), step=1e-4), steps * 1e-4

    def predict(model):
        return ds.simulate(model, end, method).states

    def run():
        over = {"equation.viscosity": np.linspace(1e-3, 1e-2, runs)}
        return np.asarray(ds.sweep(predict, model, over, batch=1).outputs)

    return run


if __name__ == "__main__":
    main()
