"""Time gradients of Lorenz' equations by gradsolve, diffsim and Diffrax, on one core.

    pip install gradsolve
    taskset -c 0 python tools/peers/make_gradsolve.py

All take Tsit5 at the same tolerances. A gradient by gradsolve replays the steps that
it recorded when its closure was made; diffsim records anew in every call. Ratios are
of one run on one machine.
"""

import time

import diffrax
import gradsolve
import jax
import jax.numpy as jnp
import numpy as np
from _record import write

import diffsim as ds
from diffsim.simulations import AbstractSimulation


RTOL, ATOL, END, MAX_STEPS = 1e-6, 1e-9, 10.0, 4096
FORMULA = "d/dρ Σ y(10)², x' = 10 (y − x), y' = ρx − y − xz, z' = xy − 8z/3"
TOLERANCES = diffrax.PIDController(RTOL, ATOL)


def rate(t, y, rho):
    """Lorenz' equations with σ = 10, β = 8/3."""
    del t
    x, y, z = y[0], y[1], y[2]
    return jnp.stack([10.0 * (y - x), rho * x - y - x * z, x * y - 8.0 / 3.0 * z])


class Problem:
    """As gradsolve takes it."""

    name, dim, t0, t1, is_stiff = "lorenz_of_diffsim", 3, 0.0, END, False

    def f_jax(self, t, y, p):
        return rate(t, y, p[0])


class Lorenz(AbstractSimulation):
    """As diffsim takes it."""

    start: jax.Array
    rho: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: rate(t, y, args.rho))

    def default_method(self):
        return method()


def method(adjoint=None):
    """Tsit5 at the tolerances."""
    return ds.Method(
        diffrax.Tsit5(), controller=TOLERANCES, adjoint=adjoint, max_steps=MAX_STEPS
    )


def gradient(adjoint):
    """Of the sum of squares of all final states, by each ρ."""

    def loss(rho, y):
        final = ds.simulate(Lorenz(y, rho), END, method(adjoint), throw=False).states
        return jnp.sum(final**2)

    return jax.jit(jax.vmap(jax.grad(loss)))


def seconds(call, rounds: int = 7) -> float:
    """The best of a few, compiled before."""
    jax.block_until_ready(call())
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        found.append(time.perf_counter() - begin)
    return min(found)


def compare(count: int) -> dict:
    start = np.tile([1.0, 0.0, 0.0], (count, 1))
    rho = np.linspace(20.0, 30.0, count)

    def record():
        return gradsolve.grad_closure(
            Problem(), start, rho[:, None], rtol=RTOL, atol=ATOL, engine="tsit5_replay"
        )

    states = record()
    replayed = jax.jit(jax.grad(lambda p: jnp.sum(states(p) ** 2)))
    ours, diffraxs = gradient(None), gradient(diffrax.RecursiveCheckpointAdjoint())
    args = jnp.asarray(rho), jnp.asarray(start)
    begin = time.perf_counter()
    record()
    recording = time.perf_counter() - begin
    times = {
        "gradsolve_replay": seconds(lambda: replayed(args[0][:, None])),
        "gradsolve_record": recording,
        "diffsim": seconds(lambda: ours(*args)),
        "diffrax_checkpoints": seconds(lambda: diffraxs(*args)),
    }
    known = np.asarray(diffraxs(*args))
    scale = np.max(np.abs(known))
    found = np.asarray(replayed(args[0][:, None]))[:, 0]
    return {
        "formula": FORMULA,
        "trajectories": count,
        "seconds": times,
        "diffsim_over_gradsolve_replay": times["diffsim"] / times["gradsolve_replay"],
        "diffsim_over_diffrax": times["diffsim"] / times["diffrax_checkpoints"],
        "diffsim_less_diffrax": np.max(np.abs(np.asarray(ours(*args)) - known)) / scale,
        "gradsolve_less_diffrax": np.max(np.abs(found - known)) / scale,
    }


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    problems = {f"lorenz_{count}": compare(count) for count in (1, 16, 128)}
    write("gradsolve", ("gradsolve", "jax", "diffrax"), problems)
