"""`verify`: every public simulation with every solver, through the laws."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import integrators, pde
from .._types import PyTree
from ..nbody import (
    IAS15,
    SABA,
    Bodies,
    Gravity,
    HybridWisdomHolman,
    NBody,
    PostNewtonian,
    State,
    TestParticles,
    WisdomHolman,
)
from ..problems import kaps, kepler, kepler_orbit
from ..simulations import AbstractSimulation, Method, simulate
from ..verify import TaylorReport, convergence, taylor_test
from ._table_printing import Measured, tabulated


#: A measured order may fall short by this much, at steps that are not yet small.
_SHORT_OF_ORDER = 0.3
#: Runs behind an order, each with a step this much shorter than the one before, and the
#: error below which rounding is seen in it.
_RUNS, _SHORTER, _FLOOR = 6, 1.25, 4e-12
#: Steps of the run whose gradient is timed, and how often it is.
_TIMED_STEPS, _REPEATS = 1000, 5
_END = 5.0


class Subject(NamedTuple):
    """A simulation, and what its state at `_END` is exactly, if that is known."""

    name: str
    make: Callable[[], AbstractSimulation]
    observe: Callable[[Any], Array] = lambda state: state.positions
    exact: np.ndarray | None = None


class Row(NamedTuple):
    """Measurements of a simulation with a solver."""

    simulation: str
    solver: str
    forward: float
    reverse: float
    disagreement: float
    order: float
    expected: int | None
    cost: float
    failures: tuple[str, ...]


class _Trap(eqx.Module):
    """A force as users write them: a harmonic potential."""

    stiffness: Array

    def __call__(self, t, state):
        return -self.stiffness * state.positions


def _planets(forces: Any = None, *, test_particles: bool = False) -> NBody:
    """A star and two planets, not in a plane, so that every number acts."""
    bodies = Bodies(
        [1.0, 1e-2, 5e-3],
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [0.0, 1.7, -0.1]],
        [[0.0, -0.01, 0.002], [0.0, 1.0, 0.1], [-0.75, 0.1, 0.0]],
    )
    light = TestParticles([[2.3, 0.0, 0.1]], [[0.05, 0.65, 0.1]])
    return NBody(bodies, forces, test_particles=light if test_particles else None)


def _ripples() -> pde.Evolution:
    """Two waves of one sixth of the amplitude at which they would break."""
    grid = pde.Grid(8, 0.0, 2 * np.pi)
    x = grid.centers[0]
    start = (jnp.cos(x) + jnp.sin(2 * x)) / 6
    return pde.Evolution(pde.KortewegDeVries(), start, grid)


def _relative_orbit(state: State) -> Array:
    return jnp.concatenate(
        [(a[1] - a[0])[:2] for a in (state.positions, state.velocities)]
    )


#: Light thirty times as fast as the planets, so that relativity is seen, and a
#: softening that is a fifth of the distances, so that it acts; where it is zero, it is
#: varied by as much.
_C, _SOFT = 30.0, 0.2

SUBJECTS = (
    Subject(
        "Gravity, two bodies",
        lambda: kepler(eccentricity=0.2),
        _relative_orbit,
        kepler_orbit(_END, 0.2),
    ),
    Subject("Gravity, a star and planets", lambda: _planets()),
    Subject("Gravity, softened", lambda: _planets(Gravity(softening=_SOFT))),
    Subject(
        "Gravity and test particles",
        lambda: _planets(Gravity(softening=_SOFT), test_particles=True),
    ),
    Subject(
        "Gravity and a user's force",
        lambda: _planets((Gravity(softening=_SOFT), _Trap(jnp.asarray(0.1)))),
    ),
    Subject(
        "PostNewtonian, central",
        lambda: _planets((Gravity(softening=_SOFT), PostNewtonian(_C, primary=0))),
    ),
    Subject(
        "PostNewtonian, all pairs",
        lambda: _planets((Gravity(softening=_SOFT), PostNewtonian(_C))),
    ),
    Subject("Kaps, stiff", kaps, lambda state: state),
    Subject("Kaps, split", lambda: kaps(split=True), lambda state: state),
    Subject("Korteweg–de Vries, Fourier", lambda: _ripples(), lambda state: state),
)


def solvers() -> tuple[tuple[diffrax.AbstractSolver, int | float], ...]:
    """Solvers, and steps of the coarsest run: the finer ones reach down to rounding."""
    suzuki = [1 / (4 - 4 ** (1 / 3))] * 2
    return (
        (integrators.Leapfrog(), 128),
        (integrators.Yoshida4(), 128),
        (integrators.Yoshida6(), 64),
        (integrators.Yoshida8(), 32),
        (integrators.KahanLi6(), 32),
        (integrators.KahanLi8(), 12),
        (integrators.SymmetricComposition.from_half(suzuki), 96),
        (diffrax.Tsit5(), 128),
        (diffrax.Dopri8(), 10),
        # Of an order so high few steps lie between the first digits and rounding.
        (IAS15(), 8.4),
        (WisdomHolman(), 64),
        (WisdomHolman(corrector=17, kernel="lazy"), 32),
        (SABA(), 8),
        # Bodies meet within one Hill radius, or these would be met all the way.
        (HybridWisdomHolman(hill_radii=1.0), 64),
        (integrators.Kvaerno3(), 64),
        (integrators.Kvaerno5(), 32),
        (integrators.KenCarp3(), 64),
        (integrators.KenCarp4(), 48),
        (integrators.KenCarp5(), 32),
        (integrators.ARS222(), 128),
        (integrators.ARS443(), 96),
        (integrators.CrankNicolson(), 128),
        (integrators.SSPRK3(), 256),
        (integrators.ETDRK2(), 128),
        (integrators.ETDRK4(), 64),
    )


#: Those that follow Kepler orbits, of bodies that are not softened.
_BY_ORBITS = (WisdomHolman, SABA, HybridWisdomHolman)
#: One of each kind, for forces behind the first: all others step those alike.
_EVERY_FORCE = (integrators.Leapfrog, integrators.KahanLi8, diffrax.Dopri8)


def verify(*, markdown: bool = False) -> int:
    """Print what was measured for every public simulation and solver.

    **Returns:** 0, or 1 if a Taylor slope or an order is not what it must be.
    """
    cases = [
        (f"{subject.name}, {type(solver).__name__}", (subject, solver, steps))
        for subject in SUBJECTS
        for solver, steps in solvers()
        if _runs(subject, solver)
    ]
    columns = "simulation", "solver", "slope, forward", "slope, reverse"
    columns += "forward − reverse", "order (of)", "gradient ÷ run"
    return tabulated(columns, cases, _measured, left=2, markdown=markdown)


def _measured(case: tuple[Subject, diffrax.AbstractSolver, int | float]) -> Measured:
    row = measured(*case)
    cells = (
        row.simulation,
        row.solver,
        f"{row.forward:.3f}",
        f"{row.reverse:.3f}",
        f"{row.disagreement:.0e}",
        f"{row.order:.2f} ({row.expected})",
        f"{row.cost:.1f}",
    )
    return Measured(cells, row.failures)


def measured(
    subject: Subject, solver: diffrax.AbstractSolver, steps: int | float
) -> Row:
    """Taylor slopes in both modes, order and gradient cost of one pair."""
    simulation = subject.make()
    taylor = taylor_test(
        lambda system: _end(system, solver, _END / steps), simulation, scale=_SOFT
    )
    order, expected = order_of(subject, solver, steps)
    failures = [f"Taylor slope of {x.name}" for x in taylor.leaves if not x.passed]
    # Written so that NaN fails.
    if expected is None or not order > expected - _SHORT_OF_ORDER:
        failures.append(f"order {order:.2f}, expected {expected}")
    return Row(
        subject.name,
        type(solver).__name__,
        forward=furthest(taylor, "forward"),
        reverse=furthest(taylor, "reverse"),
        disagreement=taylor.disagreement,
        order=order,
        expected=expected,
        cost=_gradient_cost(simulation, solver),
        failures=tuple(failures),
    )


def order_of(
    subject: Subject, solver: diffrax.AbstractSolver, steps: int | float
) -> tuple[float, int | None]:
    """The order of a solver where it shows, and what the solver says it is."""
    simulation = subject.make()
    orders = convergence(
        lambda step: subject.observe(_end(simulation, solver, step)),
        [_END / steps / _SHORTER**n for n in range(_RUNS)],
        exact=subject.exact,
        floor=_FLOOR,
    ).orders
    # The finest above rounding: coarser ones are not yet in the limit of small steps.
    order = float([np.nan, *orders[np.isfinite(orders)]][-1])
    return order, solver.order(simulation.terms())


def _end(
    simulation: AbstractSimulation, solver: diffrax.AbstractSolver, step: float
) -> PyTree[Array]:
    return simulate(simulation, _END, Method(solver, step=step)).states


def _runs(subject: Subject, solver: diffrax.AbstractSolver) -> bool:
    """Whether a pair is one that fits.

    Two bodies try every solver, other forces one of each kind; solvers by orbits,
    stiff and exponential ones have problems of their own, and the symplectic ones no
    force by velocity.
    """
    fourier = subject.name.endswith("Fourier")
    if fourier or isinstance(solver, integrators.AbstractExponentialSolver):
        return fourier and isinstance(solver, integrators.AbstractExponentialSolver)
    stiff, split = subject.name.startswith("Kaps"), subject.name.endswith("split")
    if stiff or isinstance(solver, integrators.AbstractImplicitRungeKutta):
        fits = isinstance(solver, integrators.AbstractImplicitRungeKutta)
        return stiff and fits and solver.split == split
    if isinstance(solver, _BY_ORBITS) or subject.name.endswith("planets"):
        return subject.name.endswith("planets") and isinstance(solver, _BY_ORBITS)
    if subject.exact is None and not isinstance(solver, _EVERY_FORCE):
        return False
    relativistic = subject.name.startswith("PostNewtonian")
    symplectic = isinstance(solver, integrators.AbstractSymplecticSolver)
    return not (relativistic and symplectic)


def furthest(taylor: TaylorReport, mode: str) -> float:
    """The slope that is furthest from 2 among all leaves."""
    slopes = np.array([leaf.slopes[mode] for leaf in taylor.leaves])
    if np.all(np.isnan(slopes)):
        return float("nan")
    return float(slopes[np.nanargmax(np.abs(slopes - 2))])


def _gradient_cost(
    simulation: AbstractSimulation, solver: diffrax.AbstractSolver
) -> float:
    """Time of value and gradient by every leaf over that of the value."""
    method = Method(solver, step=_END / _TIMED_STEPS)

    def total(system):
        states = simulate(system, _END, method).states
        return sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(states))

    def seconds(function):
        jax.block_until_ready(function(simulation))
        times = []
        for _ in range(_REPEATS):
            began = time.perf_counter()
            jax.block_until_ready(function(simulation))
            times.append(time.perf_counter() - began)
        return min(times)

    gradient = eqx.filter_jit(eqx.filter_value_and_grad(total))
    return seconds(gradient) / seconds(eqx.filter_jit(total))
