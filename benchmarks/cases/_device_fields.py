"""Fields on a GPU: flow beside exponax, and gas; each number beside a closed form.

Both equations let all of some field be multiplied, which multiplies its end. A sum L of
squares of that is of degree 2, and by Euler's theorem u·∇L = 2L.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import integrators, pde

from .._harness import Program, compiled, deviation
from . import _vortices as vortices
from ._device_timing import Rows, euler_check, median, rate_row
from ._devices import share_of_bandwidth, traffic


class Field(NamedTuple):
    """A run of so many steps, and a start whose end is there in closed form."""

    what: str
    end: Callable[[Any], Any]
    steps: int
    start: Any
    exact_start: Any
    exact_end: Any


def field_rows(
    field: Field, peer: Callable[[Program], dict[str, Any]] = lambda program: {}
) -> Rows:
    """A run and its gradient; `peer`: what else a row has, of the compiled run."""
    rate = field.steps * field.start[0].size, "cell steps/s"

    def share(runs):
        # XLA counts the one step of the loop.
        moved = runs * field.steps * traffic(field.end, field.start)
        return functools.partial(share_of_bandwidth, moved)

    def run():
        program = compiled(field.end, field.start)
        error = deviation(jax.jit(field.end)(field.exact_start), field.exact_end)
        check = error, "closed form"
        return rate_row(field.what, program, rate, check, share(1), **peer(program))

    def gradient():
        def loss(u):
            return jnp.sum(field.end(u) ** 2)

        program = compiled(jax.value_and_grad(loss), field.exact_start)
        check = euler_check(*program.value, field.exact_start)
        return rate_row(f"gradient of {field.what}", program, rate, check, share(3))

    return {"run": run, "gradient": gradient}


def navier_stokes(cells: tuple[int, ...], tiny: bool) -> Rows:
    """In a plane or in space, by ETDRK4 or ETDRK2, as exponax has them."""
    plane = len(cells) == 2
    n, order = 16 if tiny else cells[0], 4 if plane else 2
    steps = 2 if tiny else {4: 20, 2: 10}[order]
    start = vortices.vorticity(n) if plane else vortices.velocity(n)
    decaying, rate = (_waves(n), 25.0) if plane else (_beltrami(n), 1.0)
    shape = " × ".join(map(str, start.shape[1:]))

    def end(u):
        return vortices.flow(u, vortices.VISCOSITY, steps, order=order)

    def exponax(ours):
        """Its time for the same, and how far apart the results are."""
        try:
            theirs = compiled(vortices.peer_flow(start, steps, order=order), start)
            seconds = median(theirs)
        except Exception as error:  # it lacks memory, or is not there
            return {"details": {"exponax": f"{type(error).__name__}: {error}"[:300]}}
        away = deviation(ours.value, theirs.value)
        return {
            "peer": "exponax",
            "peer_seconds": seconds,
            "details": {"deviation_from_exponax": away},
        }

    what = f"Navier–Stokes, {shape} float64, {steps} steps of ETDRK{order}"
    decayed = np.exp(-vortices.VISCOSITY * rate * steps * vortices.STEP) * decaying
    return field_rows(Field(what, end, steps, start, decaying, decayed), exponax)


def _waves(n: int) -> Any:
    """A vorticity of waves of one length, which do not act on each other."""
    x, y = pde.Grid((n, n), 0.0, 2 * np.pi).centers
    return (jnp.cos(5 * x + 1) + jnp.cos(4 * x + 3 * y) + jnp.sin(3 * x - 4 * y))[None]


def _beltrami(n: int) -> Any:
    """The flow of Arnold, Beltrami and Childress, whose curl is itself."""
    x, y, z = pde.Grid((n, n, n), 0.0, 2 * np.pi).centers
    u, v = jnp.sin(z) + 0.4 * jnp.cos(y), 0.7 * jnp.sin(x) + jnp.cos(z)
    return jnp.stack([u, v, 0.4 * jnp.sin(y) + 0.7 * jnp.cos(x)])


def gas(n: int, tiny: bool) -> Rows:
    """An isentropic vortex that is carried along the diagonal (Shu 1998)."""
    n, steps = (12, 2) if tiny else (n, 10)
    size, dtype = 7.0, np.float32
    grid, law = pde.Grid((n, n), dtype(-size), dtype(size)), pde.Euler(dtype(1.4))
    step = 0.2 * size / n

    def vortex(t):
        away = (grid.centers - t + size) % (2 * size) - size
        swirl = 5 / (2 * np.pi) * jnp.exp((1 - jnp.sum(away**2, 0)) / 2)
        heat = 1 - 0.4 / 2.8 * swirl**2
        velocity = 1 + swirl * jnp.stack([-away[1], away[0]])
        return law.state(heat**2.5, velocity, heat**3.5)

    def end(u):
        method = ds.Method(integrators.SSPRK3(), step)
        return ds.simulate(pde.Evolution(law, u, grid), steps * step, method).states

    what = f"gas, {n} × {n} float32, {steps} steps of SSPRK3, MUSCL and HLLC"
    start = vortex(0.0)
    return field_rows(Field(what, end, steps, start, start, vortex(steps * step)))
