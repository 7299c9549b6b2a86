"""Gradients of a thousand runs by gradsolve's ensembles and by diffsim's sweeps.

    pip install gradsolve diffsim
    taskset -c 0 python tools/peers/make_gradsolve_sweep.py

Both take Tsit5 at the same tolerances, and give the gradient of one number by the
parameters of each run. Of gradsolve the gradient of the sum over the ensemble is
jitted, as its documentation shows; it replays steps that were recorded before, and the
time of that is beside it. Ensembles of sixteen stay in the cache and replay faster, but
each is a program to compile. `sweep` chooses the steps in every call. The errors of
both are from a method of order 8 by Dormand and Prince at tolerances of 1e-12.
"""

import time
from typing import Any

import diffrax
import gradsolve
import jax
import jax.numpy as jnp
import numpy as np
from _record import write

import diffsim as ds
from diffsim.simulations import AbstractSimulation


RTOL, ATOL, END, MAX_STEPS = 1e-6, 1e-9, 10.0, 4096
RUNS, ROUNDS = 1024, 7
#: Small ensembles: so many runs, from every so many.
SMALL, EVERY = 16, 128


class Lorenz:
    """By ρ, in forward mode."""

    formula = "d/dρ Σ y(10)², x' = 10 (y − x), y' = ρx − y − xz, z' = xy − 8z/3"
    name, dim, t0, t1, is_stiff = "lorenz_of_diffsim", 3, 0.0, END, False
    start = np.array([1.0, 0.0, 0.0])

    def parameters(self):
        return np.linspace(20.0, 30.0, RUNS)[:, None]

    def f_jax(self, t, y, p):
        x, y, z = y[0], y[1], y[2]
        dy = p[0] * x - y - x * z
        return jnp.stack([10.0 * (y - x), dy, x * y - 8.0 / 3.0 * z])


class FoodChain:
    """By twelve parameters, in reverse mode."""

    formula = (
        "d/d(r, A) Σ y(10)², y' = y (r + A y), three species from (1, 1/2, 3/10), "
        "r and A of each run within 5 % (seed 0) of r = (1, −1/2, −3/10), "
        "A = (−1/5, −1, 0; 3/5, −1/10, −7/10; 0, 1/2, −1/10)"
    )
    name, dim, t0, t1, is_stiff = "chain_of_diffsim", 3, 0.0, END, False
    start = np.array([1.0, 0.5, 0.3])

    def parameters(self):
        r = [1.0, -0.5, -0.3]
        a = [-0.2, -1.0, 0.0, 0.6, -0.1, -0.7, 0.0, 0.5, -0.1]
        spread = np.random.default_rng(0).uniform(0.95, 1.05, (RUNS, 12))
        return spread * np.array(r + a)

    def f_jax(self, t, y, p):
        a = p[3:]
        gain = [
            a[3 * i] * y[0] + a[3 * i + 1] * y[1] + a[3 * i + 2] * y[2]
            for i in range(3)
        ]
        return y * (p[:3] + jnp.stack(gain))


class Simulated(AbstractSimulation):
    """As diffsim takes it."""

    problem: Any
    parameters: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.asarray(self.problem.start)

    def terms(self):
        problem = self.problem
        return diffrax.ODETerm(lambda t, y, args: problem.f_jax(t, y, args.parameters))

    def default_method(self):
        tolerances = diffrax.PIDController(RTOL, ATOL)
        return ds.Method(diffrax.Tsit5(), controller=tolerances, max_steps=MAX_STEPS)


def sum_of_squares(simulation):
    """Of the final state."""
    return jnp.sum(ds.simulate(simulation, END, throw=False).states ** 2)


def by_sweep(problem):
    values = problem.parameters()
    model = Simulated(problem=problem, parameters=jnp.asarray(values[0]))

    def gradients():
        found = ds.sweep(
            sum_of_squares, model, {"parameters": values}, derivative="gradient"
        )
        return found.derivative["parameters"]

    return gradients


def by_gradsolve(problem, values):
    """Functions that record the steps of an ensemble, and that replay them."""
    start, given = np.tile(problem.start, (len(values), 1)), jnp.asarray(values)

    def record():
        return gradsolve.grad_closure(
            problem, start, values, rtol=RTOL, atol=ATOL, engine="tsit5_replay"
        )

    states = record()
    replay = jax.jit(jax.grad(lambda p: jnp.sum(states(p) ** 2)))
    return record, lambda: np.asarray(replay(given))


def by_small_ensembles(problem):
    """The same for an eighth of the runs, eight times, which is as many."""
    values = problem.parameters()
    parts = [values[i : i + SMALL] for i in range(0, RUNS, EVERY)]
    replays = [by_gradsolve(problem, part)[1] for part in parts]
    repeated = replays * (EVERY // SMALL)
    return lambda: [replay() for replay in repeated]


def known(problem):
    """At tighter tolerances, by the adjoint of Diffrax."""

    def loss(p):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(problem.f_jax),
            diffrax.Dopri8(),
            0.0,
            END,
            None,
            jnp.asarray(problem.start),
            p,
            stepsize_controller=diffrax.PIDController(1e-12, 1e-14),
            max_steps=MAX_STEPS,
        )
        return jnp.sum(jnp.asarray(found.ys) ** 2)

    return np.asarray(jax.jit(jax.vmap(jax.grad(loss)))(problem.parameters()))


def seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def errors(found, exact) -> dict:
    """Of the gradients of all runs, relative to their lengths."""
    size = np.linalg.norm(exact, axis=1)
    each = np.linalg.norm(found - exact, axis=1) / size
    return {"median": np.median(each), "largest": np.max(each)}


def compare(problem) -> dict:
    record, replay = by_gradsolve(problem, problem.parameters())
    calls = {
        "gradsolve_record": record,
        "gradsolve_replay": replay,
        "gradsolve_replay_by_16": by_small_ensembles(problem),
        "diffsim": by_sweep(problem),
    }
    for call in calls.values():
        call()  # compiles
    exact = known(problem)
    rounds = [
        {name: seconds(call) for name, call in calls.items()} for _ in range(ROUNDS)
    ]

    def ratio(*names):
        return np.median(
            [t["diffsim"] / sum(t[name] for name in names) for t in rounds]
        )

    return {
        "formula": problem.formula,
        "runs": RUNS,
        "rounds": ROUNDS,
        "gradients_per_second": {
            name: RUNS / min(times[name] for times in rounds) for name in calls
        },
        "diffsim_over_gradsolve_record_and_replay": ratio(
            "gradsolve_record", "gradsolve_replay"
        ),
        "diffsim_over_gradsolve_replay": ratio("gradsolve_replay"),
        "diffsim_over_gradsolve_replay_by_16": ratio("gradsolve_replay_by_16"),
        "error_of_diffsim": errors(calls["diffsim"](), exact),
        "error_of_gradsolve": errors(replay(), exact),
    }


def main():
    jax.config.update("jax_enable_x64", True)
    problems = {
        "lorenz_by_1": compare(Lorenz()),
        "food_chain_by_12": compare(FoodChain()),
    }
    print(problems)
    write("gradsolve_sweep", ("gradsolve", "diffsim", "jax", "diffrax"), problems)


if __name__ == "__main__":
    main()
