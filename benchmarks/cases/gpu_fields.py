"""Fields on a GPU: periodic flow beside exponax, multigrid, and their gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffsim import pde

from .._harness import Case, Effort, Row, compiled, contest, deviation, ratio
from . import _vortices as vortices
from ._devices import copy_bandwidth, traffic


def measure(effort: Effort) -> list[Row]:
    """Each in both precisions, with the share of the bandwidth that it reaches."""
    rows = []
    for dtype in (np.float32, np.float64):
        plane = vortices.vorticity(effort.size(1024, 8), dtype)
        rows += _flow(effort, plane, effort.size(100, 2), order=4)
        space = vortices.velocity(effort.size(128, 6), dtype)
        rows += _flow(effort, space, effort.size(20, 2), order=2)
        rows += _multigrid(effort, effort.size(1024, 16), dtype)
    return rows


CASE = Case("gpu_fields", __doc__ or "", measure, device="gpu")


def _flow(effort: Effort, start: Any, steps: int, *, order: int) -> list[Row]:
    viscosity = jnp.asarray(vortices.VISCOSITY, start.dtype)

    def ours(u, viscosity, steps=steps):
        return vortices.flow(u, viscosity, steps, order=order)

    def loss(u, viscosity):
        return jnp.sum(ours(u, viscosity) ** 2)

    theirs = compiled(vortices.peer_flow(start, steps, order=order), start)
    run, slope = _programs(ours, loss, start, viscosity)
    turns = {"run": run.turn, "slope": slope.turn, "theirs": theirs.turn}
    times = contest(effort, **turns)
    step = traffic(lambda *given: ours(*given, steps=1), start, viscosity)
    what = _named(
        "Navier–Stokes", start.shape[1:], start.dtype, f"{steps} steps of ETDRK{order}"
    )
    beside = ratio(
        what,
        times["run"],
        times["theirs"],
        program=run,
        peer="exponax",
        target=1.0,
        error=deviation(run.value, theirs.value),
        reference="exponax",
        details=_reached(steps * step, times["run"].best),
    )
    return [beside, _gradient(what, times, slope)]


def _multigrid(effort: Effort, n: int, dtype: Any) -> list[Row]:
    """A Poisson problem with a coefficient that varies, to the tolerance of a solve."""
    grid = pde.Grid((n, n), np.zeros(2, dtype), np.ones(2, dtype))
    x, y = grid.centers
    k, f = jnp.exp(jnp.sin(7 * x + 3 * y)), jnp.cos(5 * x) * y
    domain, cycles = pde.Domain(grid, pde.Dirichlet(0.0)), pde.Multigrid()

    def solve(f, k, solver=cycles):
        return pde.poisson(f, domain, coefficient=k, solver=solver, throw=False)

    def loss(f, k):
        return jnp.sum(solve(f, k) ** 2)

    run, slope = _programs(solve, loss, f, k)
    times = contest(effort, run=run.turn, slope=slope.turn)
    one = traffic(lambda f, k: solve(f, k, solver=pde.Multigrid(1)), f, k)
    found = pde.poisson_solution(f, domain, coefficient=k, solver=cycles)
    what = _named("multigrid", grid.shape, dtype, f"{int(found.iterations)} cycles")
    row = Row(
        what,
        n**2 / times["run"].best,
        unit="cells/s",
        seconds=times["run"].best,
        compile_seconds=run.compile_seconds,
        memory_bytes=run.memory_bytes,
        noise=times["run"].noise,
        details=_reached(int(found.iterations) * one, times["run"].best),
    )
    return [row, _gradient(what, times, slope)]


def _programs(run: Callable[..., Any], loss: Callable[..., Any], *given: Any):
    """The run, and its gradient in all that is given."""
    slopes = jax.value_and_grad(loss, tuple(range(len(given))))
    return compiled(run, *given), compiled(slopes, *given)


def _gradient(what: str, times: dict[str, Any], program: Any) -> Row:
    return ratio(
        f"{what}, value and gradient",
        times["slope"],
        times["run"],
        program=program,
        peer="its own run",
    )


def _reached(moved: float, seconds: float) -> dict[str, Any]:
    """Bytes read and written a second, as XLA counts them, beside those of a copy."""
    rate = moved / seconds
    return {"bytes_per_second": rate, "share_of_copy": rate / copy_bandwidth()}


def _named(name: str, shape: tuple[int, ...], dtype: Any, how: str) -> str:
    return f"{name}, {' × '.join(map(str, shape))} {np.dtype(dtype)}, {how}"
