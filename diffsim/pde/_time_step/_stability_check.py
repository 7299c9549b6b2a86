"""Stability check: warns of fixed steps above the limit of explicit solvers.

Only known numbers are checked. Functions of users may close over traced ones, so that
results are tested as well as parameters.
"""

import warnings
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._validation import compile_time_eval, is_traced
from ...integrators import AbstractExponentialSolver, AbstractImplicitRungeKutta
from ...simulations import AbstractSplittingSolver, Method, Semilinear
from ._cfl import CFL, cfl_time_step, courant_rate_of


#: Solvers that step everything explicitly, and not by what they know of it.
_EXPLICIT = diffrax.AbstractERK | diffrax.Euler

#: Factor by which a step may multiply a mode.
_TOLERATED = 1.02
#: Share of the field that rounding in a mode that does not grow may become in a run.
_TOLERATED_IN_ALL = 1e-3


class LinearizedModes(NamedTuple):
    """Linearized dynamics of modes carried as fast as the fastest part of a field.

    `symbol` is what is linear and stiff, `turning` the frequency of what carries.
    """

    symbol: Array
    turning: Array


def warn_if_unstable(
    simulation: Any, method: Method, duration: float | None = None
) -> bool:
    """Warn where the first step is known before a run; return whether it did.

    In the `duration` of a run small growth adds up; without one it is that of a step.
    """
    if _is_unknown((simulation, method.step, method.controller)):
        return False
    with compile_time_eval():
        step: Any = method.step
        if isinstance(method.controller, CFL):
            step = cfl_time_step(simulation, method.controller.courant_number)
        waves = None if is_traced(step) else _modes_of(simulation, method.solver)
        if _is_unknown((step, waves)):
            return False
        step = float(step)
        if waves is None:
            limit, advice = _limit_of_crossings(simulation, method.solver)
        else:
            limit, advice = _limit_of_growth(waves, method.solver, step, duration)
        if not step > limit:
            return False
        # CFL's steps help a solver that takes other than fixed ones, if stable.
        helps = False
        if isinstance(method.solver, _EXPLICIT):
            by_cfl = cfl_time_step(simulation)
            helps = not is_traced(by_cfl) and float(by_cfl) <= limit
    chosen = (
        f"step={step:.4g}" if method.step else f"the first step of {method.controller}"
    )
    warnings.warn(
        f"{chosen} is longer than {limit:.3g}, where {type(method.solver).__name__} "
        "becomes unstable for the fastest waves, friction or diffusion of the start: "
        "short waves grow, with them what is conserved, and the run may blow up; take "
        f"a fixed step of {advice:.2g}"
        f"{', or controller=pde.CFL()' if helps else ''}",
        stacklevel=5,
    )
    return True


def _is_unknown(tree: Any) -> bool:
    return any(map(is_traced, jax.tree.leaves(tree)))


def _modes_of(
    simulation: Any, solver: diffrax.AbstractSolver
) -> LinearizedModes | None:
    """Modes of a simulation that knows them, for solvers that they limit."""
    split = isinstance(solver, AbstractImplicitRungeKutta) and solver.split
    some = split or isinstance(solver, AbstractExponentialSolver)
    explicit = isinstance(solver, _EXPLICIT)
    if not ((explicit or some) and hasattr(simulation, "waves")):
        return None
    modes = _linearized_modes(simulation)
    if explicit or modes is None or _is_unknown(modes):
        return modes
    return modes if np.any(np.asarray(modes.turning) != 0) else None


@fresh_jit
def _linearized_modes(simulation: Any) -> LinearizedModes | None:
    y = simulation.initial_state()
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
    return simulation.waves(jnp.asarray(simulation.t0, dtype), y)


def _limit_of_growth(
    waves: LinearizedModes,
    solver: diffrax.AbstractSolver,
    step: float,
    duration: float | None,
) -> tuple[float, float]:
    """The longest step up to `step` by which no mode grows; and a good one.

    By von Neumann's analysis, with a step of the solver itself.
    """
    dtype = waves.turning.dtype
    in_all = np.log(_TOLERATED_IN_ALL / float(jnp.finfo(dtype).eps))

    def grows(step: float) -> bool:
        # An array, so that one compiled function is for all steps.
        growing, others = _growth_factors(solver, waves, jnp.asarray(step, dtype))
        steps = 1 if duration is None else max(duration / step, 1)
        most = min(_TOLERATED, np.exp(in_all / steps))
        return float(growing) > _TOLERATED or float(others) > float(most)

    if not grows(step):
        return step, step
    stable = step / 2
    while grows(stable):
        stable /= 2
    tried = (stable * float(part) for part in np.arange(2, 0.99, -1 / 16))
    limit = next(length for length in tried if not grows(length))
    return limit, limit / 2


@fresh_jit
def _growth_factors(
    solver: diffrax.AbstractSolver, waves: LinearizedModes, step: Array
) -> tuple[Array, Array]:
    """The most by which a step multiplies modes that grow, over their growth.

    And the most by which it multiplies those that do not.
    """

    def join(y):
        return jax.lax.complex(y[0], y[1])

    def split(z):
        return jnp.stack([z.real, z.imag])

    def carried(t, z, args):
        del t, args
        return 1j * ways * z

    # Carried either way: with their own turning, or against it.
    ways = jnp.stack([waves.turning, -waves.turning])
    terms = Semilinear(waves.symbol, carried, forward=join, backward=split)
    shape = jnp.broadcast_shapes(ways.shape, waves.symbol.shape)
    ones = jnp.ones(shape, ways.dtype)
    start, t1 = split(jax.lax.complex(ones, 0 * ones)), jnp.asarray(step, ones.dtype)
    memory = solver.init(terms, 0 * t1, t1, start, None)
    end = solver.step(terms, 0 * t1, t1, start, None, memory, made_jump=False)[0]
    rate, factor = waves.symbol.real, jnp.abs(join(end))
    growing = jnp.where(rate > 0, factor * jnp.exp(-t1 * rate), 0)
    return jnp.max(growing), jnp.max(jnp.where(rate > 0, 0, factor))


def _limit_of_crossings(
    simulation: Any, solver: diffrax.AbstractSolver
) -> tuple[float, float]:
    """The longest stable step of an explicit solver, and a good one."""
    if not isinstance(solver, _EXPLICIT | AbstractSplittingSolver):
        return np.inf, np.inf
    rate = courant_rate_of(simulation, simulation.t0, simulation.initial_state())
    if rate is None or is_traced(rate) or not rate > 0:
        return np.inf, np.inf
    return _stability_limit(solver) / float(rate), 0.5 / float(rate)


def _stability_limit(solver: diffrax.AbstractSolver) -> float:
    """The crossings a step that a solver is stable for.

    Half of what it is of rates of decay: diffusion decays twice as fast as it
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
    unstable = np.abs(growth) > 1 + 1e-9
    return 0.005 * float(np.argmax(unstable) if np.any(unstable) else unstable.size)
