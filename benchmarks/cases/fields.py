"""Finite volumes: kernels beside Numba and py-pde, an implicit gradient, a sweep."""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from diffsim import integrators, pde, simulations

from .._harness import Case, Effort, Row, compiled, contest, deviation, ratio
from ._field_loops import (
    heat_loop,
    muscl_loop,
    swirl_loop,
    swirl_muscl_loop,
    upwind_loop,
)
from ._py_pde import heat_by_py_pde, phases_by_py_pde


#: Of an explicit step, in squares of a cell over the diffusivity, and in cells.
_SPREAD, _CARRIED = 0.1, 0.1


def measure(effort: Effort) -> list[Row]:
    """One step after another of heat and of smoke, then what else is done with them."""
    rows = []
    for n, dtype in ((256, np.float64), (1024, np.float32)):
        n, steps = effort.size(n, 8), effort.size(20, 2)
        rows += [_heat(effort, n, steps, dtype), *_smoke(effort, n, steps, dtype)]
    rows += _py_pde(effort, effort.size(256, 8), effort.size(20, 2))
    rows.append(_implicit(effort, effort.size(256, 8), effort.size(10, 2)))
    rows += _explicit(effort, effort.size(256, 8), effort.size(20, 2))
    return [*rows, *_sweep(effort, effort.size(128, 8), effort.size(64, 3))]


CASE = Case("fields", __doc__ or "", measure, processes=5)


def _heat(effort: Effort, n: int, steps: int, dtype: Any) -> Row:
    """With a conductivity that varies, between cold walls."""
    u, k = _start(n, dtype), _varied(n, dtype)
    step = _SPREAD / n**2
    grid = pde.Grid((n, n), np.zeros(2, dtype), np.ones(2, dtype))

    def ours(u, k):
        body = pde.Evolution(pde.Diffusion(k), u, grid, pde.Dirichlet(0.0))
        return _steps(body, steps, step)

    cells = np.asarray(u), np.asarray(k)
    loop = heat_loop()
    size = f"{n} × {n} {np.dtype(dtype)}, {steps} steps of Euler"
    what = f"variable-coefficient diffusion, {size}"
    turn = partial(loop, *cells, _SPREAD, steps)
    return _beside(effort, what, ours, (u, k), turn)


def _smoke(effort: Effort, n: int, steps: int, dtype: Any) -> list[Row]:
    """By one wind, and by a flow that varies: on faces, any way it points."""
    u, wind = _start(n, dtype), jnp.asarray([1.0, 0.5], dtype)
    swirl = tuple(jnp.asarray(face, dtype) for face in _swirl(n))
    grid = pde.Grid((n, n), np.zeros(2, dtype), np.ones(2, dtype))
    rows, cells, step = [], np.asarray(u), _CARRIED / n
    on_faces = [np.asarray(face) for face in swirl]
    for name, velocity, scheme, loop, given in (
        ("upwind", wind, pde.Upwind(), upwind_loop(), [_CARRIED]),
        ("MUSCL", wind, pde.MUSCL(), muscl_loop(), [_CARRIED]),
        ("upwind in a swirl", swirl, pde.Upwind(), swirl_loop(), None),
        ("MUSCL in a swirl", swirl, pde.MUSCL(), swirl_muscl_loop(), None),
    ):

        def ours(u, velocity, scheme=scheme):
            law = pde.AdvectionDiffusion(None, velocity, scheme=scheme)
            return _steps(pde.Evolution(law, u, grid), steps, step)

        given = [*on_faces, _CARRIED] if given is None else given
        what = f"advection, {name}, {n} × {n} {np.dtype(dtype)}, {steps} steps of Euler"
        turn = partial(loop, cells, *given, steps)
        rows.append(_beside(effort, what, ours, (u, velocity), turn))
    return rows


def _swirl(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Four vortices on the faces across either axis."""
    face = 2 * np.pi * np.arange(n + 1) / n
    cell = 2 * np.pi * (np.arange(n) + 0.5) / n
    return (
        np.outer(np.sin(face), np.cos(cell)),
        -np.outer(np.cos(cell), np.sin(face)),
    )


def _py_pde(effort: Effort, n: int, steps: int) -> list[Row]:
    """Time py-pde at equations that it has, with explicit steps of one length."""
    u, step, spread = _start(n, np.float64), _SPREAD / n**2, 0.5
    grid, cells = pde.Grid((n, n)), np.asarray(u)

    def heat(u):
        body = pde.Evolution(pde.Diffusion(1.0), u, grid, pde.Dirichlet(0.0))
        return _steps(body, steps, step)

    def phases(u):
        return _steps(pde.Evolution(pde.AllenCahn(spread), u, grid), steps, step)

    turns = {
        "heat": (heat, heat_by_py_pde(cells, step, steps)),
        "Allen-Cahn": (phases, phases_by_py_pde(cells, spread, step, steps)),
    }
    return [
        _beside(
            effort,
            f"{name}, {n} × {n} float64, {steps} steps of Euler",
            ours,
            (u,),
            turn,
            peer="py-pde, compiled by Numba, one core",
        )
        for name, (ours, turn) in turns.items()
    ]


def _steps(evolution: pde.Evolution, steps: int, step: float) -> Any:
    method = simulations.Method(diffrax.Euler(), step)
    return simulations.simulate(evolution, steps * step, method).states[0]


def _beside(
    effort: Effort,
    what: str,
    ours: Callable[..., Any],
    given: tuple[Any, ...],
    loop: Callable[[], Any],
    *,
    peer: str = "the same loops in Numba, one core",
) -> Row:
    program = compiled(ours, *given)
    exact = loop()
    times = contest(effort, ours=program.turn, theirs=lambda: loop)
    return ratio(
        what,
        times["ours"],
        times["theirs"],
        program=program,
        peer=peer,
        target=1.5,
        error=deviation(program.value, exact),
        reference="the peer",
    )


def _implicit(effort: Effort, n: int, steps: int) -> Row:
    """Value and gradient in the initial field and every conductivity."""
    given = _start(n, np.float64), _varied(n, np.float64)
    grid = pde.Grid((n, n))
    method = simulations.Method(integrators.Kvaerno3(), 1e-3)

    def loss(u, k):
        body = pde.Evolution(pde.Diffusion(k), u, grid, pde.Dirichlet(0.0))
        return jnp.sum(simulations.simulate(body, steps * 1e-3, method).states ** 2)

    run = compiled(loss, *given)
    both = compiled(jax.value_and_grad(loss, (0, 1)), *given)
    times = contest(effort, run=run.turn, both=both.turn)
    return ratio(
        f"variable-coefficient diffusion, {n} × {n}, value and gradient of {steps} "
        "steps of Kvaerno3",
        times["both"],
        times["run"],
        program=both,
        peer="its own run",
        target=4.0,
    )


def _explicit(effort: Effort, n: int, steps: int) -> list[Row]:
    """Value and gradient in the initial field and where the flow carries it."""
    grid, u = pde.Grid((n, n)), _start(n, np.float64)
    method = simulations.Method(integrators.SSPRK3(), _CARRIED / n)
    x, y = 2 * jnp.pi * grid.centers
    swirl = jnp.stack([jnp.sin(x) * jnp.cos(y), -jnp.cos(x) * jnp.sin(y)])
    gas = pde.Euler(1.4)

    def smoke(u, velocity):
        return pde.Evolution(pde.AdvectionDiffusion(None, velocity), u, grid)

    def blast(pressure, velocity):
        start = gas.state(jnp.ones((n, n)), velocity, pressure)
        return pde.Evolution(gas, start, grid)

    rows = []
    for what, made, given in (
        ("smoke in a swirl", smoke, (u, swirl)),
        ("gas in a swirl", blast, (2 + 0.1 * u, 0.3 * swirl)),
    ):

        def loss(*given, made=made):
            run = simulations.simulate(made(*given), steps * _CARRIED / n, method)
            return jnp.sum(run.states**2)

        run = compiled(loss, *given)
        both = compiled(jax.value_and_grad(loss, (0, 1)), *given)
        times = contest(effort, run=run.turn, both=both.turn)
        rows.append(
            ratio(
                f"{what}, {n} × {n}, value and gradient of {steps} steps of SSPRK3",
                times["both"],
                times["run"],
                program=both,
                peer="its own run",
            )
        )
    return rows


def _sweep(effort: Effort, n: int, members: int) -> list[Row]:
    """Growth rates of a population, all at once and one after another."""
    u, rates = _start(n, np.float64) ** 2, jnp.linspace(0.5, 2, members)
    grid = pde.Grid((n, n))
    method = simulations.Method(integrators.ETDRK4(), 0.02)

    def end(rate):
        law = pde.FisherKPP(1e-3, rate)
        run = pde.Evolution(law, u, grid, discretization=pde.Fourier())
        return simulations.simulate(run, 0.2, method).states

    one = compiled(end, rates[0])
    programs = {
        "vmap": compiled(jax.vmap(end), rates),
        "lax.map": compiled(lambda rates: jax.lax.map(end, rates), rates),
    }
    times = contest(effort, one=one.turn, **{k: p.turn for k, p in programs.items()})
    # The target is for whichever measures better.
    better = min(programs, key=lambda name: times[name].best)
    return [
        ratio(
            f"population, {n} × {n}, {members} growth rates by {name}",
            times[name],
            times["one"],
            program=program,
            peer="one run",
            target=1.2 * members if name == better else None,
            error=deviation(program.value[0], one.value),
            reference="one run",
        )
        for name, program in programs.items()
    ]


def _start(n: int, dtype: Any) -> Any:
    x, y = pde.Grid((n, n)).centers
    return (jnp.sin(6 * x) * jnp.cos(4 * y) + x).astype(dtype)


def _varied(n: int, dtype: Any) -> Any:
    x, y = pde.Grid((n, n)).centers
    return (1 + 0.5 * jnp.sin(7 * x + 3 * y)).astype(dtype)
