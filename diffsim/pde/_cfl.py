"""`CFL`: steps as long as the waves allow."""

import warnings
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import check_positive, is_traced
from .._types import Numbers
from ..simulations import AbstractOneStepSolver, Method


class CFL(diffrax.AbstractStepSizeController):
    r"""Steps in which the fastest wave crosses a given part of a cell.

    $$h = \frac{C}{\sum_a \max|\lambda_a| / \Delta x_a}$$

    measured before every step. The step follows the flow and no error; what of it
    depends on parameters is not differentiated, as with Diffrax's own controllers:
    `Method.frozen` keeps the steps where that matters.

    ```python
    ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.4))
    ```

    **Arguments**

    - `number`: C.

    **Good values:** 0.5 with `SSPRK3`; up to 0.9 is stable with first order upwind, and
    0.3 keeps the error of time below that of space with `WENO5`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are, by
    `crossings(t, u, domain)`.
    """

    number: float | Array
    _direction: Any = eqx.field(repr=False)

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01448839",)

    def __init__(self, number: float | Array = 0.5):
        check_positive("number", number)
        self.number = number
        self._direction = 1

    def wrap(self, direction):
        return eqx.tree_at(lambda c: c._direction, self, direction)

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        del terms, t1, func, error_order
        step = self._step(t0, y0, args)
        return t0 + (step if dt0 is None else jnp.minimum(dt0, step)), None

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        del t0, y0, y_error, error_order
        end = t1 + self._step(t1, y1_candidate, args)
        return True, t1, end, False, controller_state, diffrax.RESULTS.successful

    def _step(self, t, u, evolution):
        # Diffrax turns a run round that goes backwards; the clock does not.
        now = jnp.asarray(t) * jnp.asarray(self._direction, jnp.result_type(t))
        # Derivatives are those at frozen steps: where they lie changes only the error.
        return jax.lax.stop_gradient(allowed_step(evolution, self.number, now, u))


def largest_step(evolution: Any, number: Numbers = 0.5) -> Array:
    r"""The fixed step at which the fastest wave crosses `number` cells at the start.

    ```python
    step = float(pde.largest_step(tube, 0.5))
    ds.simulate(tube, 0.2, ds.Method(integrators.SSPRK3(), step=0.8 * step))
    ```

    **Arguments**

    - `evolution`: an `Evolution`, of an equation that has waves or that spreads; or
        an `IncompressibleFlow`.
    - `number`: C, as for `CFL`.

    **Raises:** `ValueError` for equations that do not say how fast their waves are.

    **Limits:** waves may become faster later (mathematics).
    """
    return allowed_step(evolution, number, evolution.t0, evolution.initial_state())


def warn_of_long_steps(simulation: Any, method: Method):
    """Where explicit steps are fixed and known before a run."""
    solver = method.solver
    explicit = isinstance(solver, diffrax.AbstractERK | AbstractOneStepSolver)
    known = not any(is_traced(leaf) for leaf in jax.tree.leaves(simulation))
    if method.adaptive or method.step is None or not (explicit and known):
        return
    with jax.ensure_compile_time_eval():
        rate = _rate(simulation, simulation.t0, simulation.initial_state())
    if rate is None or not method.step * float(rate) > (most := _stable(solver)):
        return
    # Leapfrog and its like have no other than fixed steps.
    other = (
        ", or controller=pde.CFL()" if isinstance(solver, diffrax.AbstractERK) else ""
    )
    warnings.warn(
        f"step={method.step:.4g} is longer than {most / float(rate):.3g}, where "
        f"{type(solver).__name__} becomes unstable for the fastest waves, friction or "
        "diffusion of the start: the run may blow up; take a fixed step of "
        f"{0.5 / float(rate):.2g}{other}",
        stacklevel=5,
    )


def _stable(solver: diffrax.AbstractSolver) -> float:
    """The crossings a step that a solver is stable for.

    Half of what it is of rates of decay: what spreads decays twice as fast as it
    crosses, and so do the shortest waves of upwind differences.
    """
    if not isinstance(solver, diffrax.AbstractERK):
        return 1.0
    tableau: Any = solver.tableau
    n = len(tableau.b_sol)
    a = np.zeros((n, n))
    for i, row in enumerate(tableau.a_lower, start=1):
        a[i, :i] = row
    # The polynomial by which a step multiplies, from its lowest power.
    slope, powers = np.ones(n), [1.0]
    for _ in range(n):
        powers.append(np.sum(tableau.b_sol * slope))
        slope = np.sum(a * slope, axis=1)
    decay = -np.arange(0.0, 20.0, 0.01)
    growth = np.polyval(powers[::-1], decay)
    beyond = np.abs(growth) > 1 + 1e-9
    return 0.005 * float(np.argmax(beyond) if np.any(beyond) else beyond.size)


def allowed_step(simulation: Any, number: Any, t: Any, y: Any) -> Array:
    """The step of `number` crossings from the state y at the time t."""
    rate = _rate(simulation, t, y)
    if rate is None:
        name = type(getattr(simulation, "equation", simulation)).__name__
        raise ValueError(
            f"{name} does not say how fast its waves are, by crossings(t, u, domain); "
            "give step= or another controller"
        )
    # Where nothing moves any step will do, a finite one.
    least = jnp.finfo(rate.dtype).tiny ** 0.5
    return jnp.asarray(number, rate.dtype) / jnp.maximum(rate, least)


@eqx.filter_jit
def _rate(simulation: Any, t: Any, y: Any) -> Array | None:
    if not hasattr(simulation, "crossings"):
        return None
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
    return simulation.crossings(jnp.asarray(t, dtype), y)
