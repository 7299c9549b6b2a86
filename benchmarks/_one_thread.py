"""One process, one thread: set before JAX and Numba are imported."""

import os
import sys


#: For XLA, which has no variable for it.
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"

#: One thread for every library that would take more.
_ENVIRONMENT = {
    "NPROC": "1",  # the size of XLA's own pool of threads
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def one_thread() -> bool:
    """Ties this process to one core; False where the system cannot (macOS, Windows).

    The threads that XLA starts later inherit the core, so whatever it starts shares it.
    The last core is taken: interrupts prefer the first.
    """
    if "jax" in sys.modules:
        raise RuntimeError("one_thread comes before jax is imported")
    os.environ.update(_ENVIRONMENT)
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True
