"""One small function, swept by xsweep and by diffsim, in the ways `make_xsweep.py` has.

    python tools/peers/_swept_oscillator.py KIND STORE LOG

sweeps as KIND says into STORE, and appends the parameter of every run to LOG when it is
run. It prints "ready" once all is imported.
"""

import functools
import os
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray
import xsweep

import diffsim as ds
from diffsim.sweeps import SweepOptions


RUNS, STEPS, STEP = 4096, 20_000, 1e-3
#: Runs side by side: a group of xsweep's, a tile of diffsim's.
TOGETHER = 32
FREQUENCIES = np.linspace(0.5, 1.5, RUNS)
Log = Callable[[np.ndarray], None]


def position(frequency):
    """Of an oscillator that starts at 1 at rest, after STEPS steps by leapfrog."""

    def step(_, state):
        x, v = state
        x = x + STEP * v
        return x, v - STEP * frequency**2 * x

    begin = jnp.ones_like(frequency), -0.5 * STEP * frequency**2
    return jax.lax.fori_loop(0, STEPS, step, begin)[0]


def exact_positions() -> np.ndarray:
    """What leapfrog comes to without round-off: 2 sin(φ/2) = hω, x = cos(nφ)."""
    return np.cos(STEPS * 2 * np.arcsin(0.5 * STEP * FREQUENCIES))


def to_file(path: str) -> Log:
    """Append to a file, whole numbers whenever the process ends."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return lambda values: (os.write(file, np.asarray(values, np.float64)), None)[1]


def by_xsweep(
    *, batched: bool = False, chunk: int | None = None, log: Log | None = None
) -> Callable[[str], None]:
    """A point function in pure Python that calls JAX; or one of groups of points."""
    call = jax.jit(jax.vmap(position) if batched else position)
    call(jnp.asarray(FREQUENCIES[:TOGETHER] if batched else FREQUENCIES[0]))

    def point(frequency):
        if log is not None:
            log(frequency)
        if batched:
            return xarray.DataArray(np.asarray(call(frequency.values)), dims=["point"])
        return float(call(frequency))

    clause = "batch" if batched else "loop"
    lifted = xsweep.sweep(f"{clause}(frequency) -> position()", version="1")(point)
    space = xarray.Dataset({"frequency": ("frequency", FREQUENCIES)})
    widths = {} if chunk is None else {"frequency": chunk}

    def sweep(store: str):
        # A killed run leaves its lock, which the next one is told to break.
        policy = xsweep.SweepPolicy(
            store=store, store_chunks=widths, batch_size=TOGETHER, force_unlock=True
        )
        lifted(space, policy=policy)

    return sweep


def by_diffsim(
    *, chunk: int | None = None, memory: int | None = None, log: Log | None = None
) -> Callable[[str], None]:
    """The same function of a model."""

    def logged(frequency):
        if log is not None:
            log(frequency)
        return frequency

    def predict(model):
        frequency = model["frequency"]
        if log is not None:
            shape = jax.ShapeDtypeStruct((), frequency.dtype)
            frequency = jax.pure_callback(
                logged, shape, frequency, vmap_method="expand_dims"
            )
        return {"position": position(frequency)}

    model, over = {"frequency": jnp.array(1.0)}, {"frequency": FREQUENCIES}

    def sweep(store: str):
        options = SweepOptions(chunk=chunk, memory=memory)
        ds.sweep(predict, model, over, batch=TOGETHER, store=store, options=options)

    return sweep


#: In chunks as each library makes them of itself, and in chunks of so many runs; those
#: of diffsim then have place for one chunk on the device, so that it stores as it goes.
KINDS: dict[str, Callable[..., Callable[[str], None]]] = {
    "xsweep": by_xsweep,
    "xsweep_chunks_32": functools.partial(by_xsweep, chunk=32),
    "xsweep_batches_32": functools.partial(by_xsweep, chunk=32, batched=True),
    "xsweep_chunks_512": functools.partial(by_xsweep, chunk=512),
    "diffsim": by_diffsim,
    "diffsim_chunks_32": functools.partial(by_diffsim, chunk=32, memory=32 * 64),
    "diffsim_chunks_512": functools.partial(by_diffsim, chunk=512, memory=512 * 64),
}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    kind, store, path = sys.argv[1:]
    sweep = KINDS[kind](log=to_file(path))
    print("ready", flush=True)
    sweep(store)
