"""`python -m benchmarks.tuning [NAME ...]`: the numbers of `diffsim._tuning` again.

For every number a few values, and what a task takes with each: the one in force should
be the best, or between the best two. On one core, which nothing else should use.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._one_thread import one_thread


if __name__ == "__main__":
    one_thread()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import _tuning, implicit, integrators, nbody, pde, problems


class Task(NamedTuple):
    """A function to be timed, and what one call of it is divided by."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    units: float = 1.0

    def microseconds(self) -> float:
        """The fastest of some calls, compiled for the numbers in force."""
        jax.clear_caches()
        run = jax.jit(self.function)
        jax.block_until_ready(run(*self.inputs))
        times = []
        for _ in range(7):
            start = time.perf_counter()
            jax.block_until_ready(run(*self.inputs))
            times.append(time.perf_counter() - start)
        return 1e6 * min(times) / self.units


def _summed(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: sum(jnp.sum(x**2) for x in jax.tree.leaves(run(*inputs)))


def _steps(name: str, system: nbody.NBody, solver: Any, steps: int) -> Iterator[Task]:
    """A step, forward and in the gradient."""

    def run(positions):
        moved = eqx.tree_at(lambda s: s.bodies.positions, system, positions)
        return ds.simulate(moved, float(steps), ds.Method(solver, step=1.0)).states

    inputs = (system.bodies.positions,)
    yield Task(f"step, {name}", run, inputs, steps)
    yield Task(f"gradient, {name}", jax.grad(_summed(run)), inputs, steps)


def _planets(solver: Any) -> Iterator[Task]:
    return _steps("5 bodies", problems.outer_solar_system(), solver, 200)


def _swarms(*sizes: int) -> Iterator[Task]:
    for size in sizes:
        x = jnp.asarray(np.random.default_rng(0).normal(size=(size, 3)))
        bodies = nbody.Bodies(jnp.full(size, 1e-9), x, 0 * x)
        system = nbody.NBody(bodies)
        yield from _steps(f"{size} bodies", system, integrators.Leapfrog(), 20)


def _sums_of_rates() -> Iterator[Task]:
    from diffsim.simulations._integrate._explicit_step import weighted_sum

    weights, rates = jnp.linspace(0.1, 1.0, 13), jnp.ones((13, 60))
    for tangents in (6, 70):
        moves = jnp.ones((tangents, 13, 60))

        def pushed(moves):
            push = lambda move: jax.jvp(  # noqa: E731
                lambda r: weighted_sum(weights, r), (rates,), (move,)
            )
            return jax.vmap(push)(moves)

        yield Task(f"{tangents} tangents", pushed, (moves,))


def _poisson() -> Iterator[Task]:
    square = pde.Domain(pde.Grid((128, 128)), pde.Dirichlet())
    source = jnp.asarray(np.random.default_rng(0).normal(size=(128, 128)))

    def solve(source):
        return pde.poisson(source, square, solver=pde.Multigrid())

    yield Task("Poisson", solve, (source,))


def _small_systems() -> Iterator[Task]:
    for size in (2, 3, 4):
        matrices = jnp.eye(size) + 0.1 * jnp.ones((1000, size, size))

        def solve(matrices):
            return jax.vmap(lambda a: implicit.linear_solve(a, jnp.ones(len(a))))(
                matrices
            )

        yield Task(f"{size} rows", solve, (matrices,), 1000)


def _tiles() -> list[str]:
    """What a step and run takes by the tile of a sweep, and by the bytes in it."""
    system, steps = problems.outer_solar_system(), 1000
    method = ds.Method(integrators.Leapfrog(), step=1.0)

    def end(system):
        return ds.simulate(system, float(steps), method).states.positions

    masses = {"bodies.masses[Jupiter]": np.linspace(0.9e-3, 1.1e-3, 512)}
    lines = []
    for tile in (16, 32, 64, 128):
        seconds = [
            ds.sweep(end, system, masses, batch=tile).stats["run_seconds"]
            for _ in range(3)
        ]
        lines += [f"    tile of {tile}: {1e9 * min(seconds) / steps / 512:.3g} ns"]
    return lines


#: By name: values, and tasks that depend on them.
MEASURED: dict[str, tuple[tuple[Any, ...], Callable[[], Iterator[Task]]]] = {
    "BODIES_AT_ONCE": ((0, 64, 10**6), lambda: _swarms(32, 64, 128)),
    "TANGENTS_OF_PAIRS_BY_MATRIX": ((0, 1500, 10**9), lambda: _swarms(5, 10, 20)),
    "TANGENTS_OF_RATES_BY_MATRIX": ((0, 1500, 10**9), _sums_of_rates),
    "SUBSTEPS_WRITTEN_OUT": (
        (0, 4, 100),
        lambda: _planets(integrators.Yoshida4()),
    ),
    "STEPS_WRITTEN_OUT": ((1, 3, 5, 6), lambda: _planets(integrators.Leapfrog())),
    "BLOCK_BYTES": ((0, 512, 4096), lambda: _planets(integrators.Leapfrog())),
    "MATRIX_WRITTEN_OUT": ((0, 1024), lambda: _planets(nbody.WisdomHolman())),
    "COARSEST_CELLS": ((16, 64, 256), _poisson),
    "ROWS_IN_CLOSED_FORM": ((0, 3, 4), _small_systems),
}


def measured(name: str) -> list[str]:
    """Lines of one number: microseconds of every task by value."""
    values, tasks = MEASURED[name]
    in_force, lines = getattr(_tuning, name), []
    try:
        for task, value in itertools.product(list(tasks()), values):
            setattr(_tuning, name, value)
            lines += [f"    {task.name}, {value}: {task.microseconds():.3g} µs"]
    finally:
        setattr(_tuning, name, in_force)
    return [f"{name} = {in_force}", *lines]


def main(arguments: list[str] | None = None) -> None:
    """Prints what every number was chosen by, or those that are named."""
    parser = argparse.ArgumentParser("python -m benchmarks.tuning", description=__doc__)
    every = [*MEASURED, "TILE_BYTES"]
    parser.add_argument("names", nargs="*", choices=[*every, []], help="all by default")
    ds.configure(enable_x64=True)
    for name in parser.parse_args(arguments).names or every:
        is_tile = name == "TILE_BYTES"
        lines = [name, *_tiles()] if is_tile else measured(name)
        print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
