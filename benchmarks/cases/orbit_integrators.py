"""Solvers of orbits and REBOUND's: time and energy error of one problem, gradients."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import nbody, problems

from .._harness import Case, Effort, Program, Row, Times, compiled, contest, ratio
from .._peers import rebound_of, states_of


#: Of Jupiter, with G = 1, au and solar masses.
PERIOD = 11.86 * 2 * np.pi

Setup = Callable[[Any], None]


class Contest(NamedTuple):
    """A solver of ours, and what makes a simulation of REBOUND its peer."""

    name: str
    solver: Any
    setup: Setup
    target: float | None = None


def _setup(integrator: str, **options: Any) -> Setup:
    def setup(simulation: Any) -> None:
        simulation.integrator = integrator
        for name, value in options.items():
            setattr(simulation.integrator, name, value)

    return setup


def _whfast(**options: Any) -> Setup:
    return _setup("whfast", safe_mode=0, **options)


def _contests() -> tuple[Contest, ...]:
    """At 1/20 of the period of Jupiter; IAS15 chooses its own steps.

    Solvers hold arrays, which take a device: none is made by an import.
    """
    lazy = {"corrector": 17, "kernel": "lazy"}
    return (
        Contest("WisdomHolman()", nbody.WisdomHolman(), _whfast(), 0.8),
        Contest(
            "WisdomHolman(corrector=17)",
            nbody.WisdomHolman(corrector=17),
            _whfast(corrector=17),
            0.8,
        ),
        Contest(
            'WisdomHolman(corrector=17, kernel="lazy")',
            nbody.WisdomHolman(**lazy),
            _whfast(**lazy),
        ),
        Contest("SABA()", nbody.SABA(), _setup("saba", safe_mode=0, type="10_6_4")),
        Contest("HybridWisdomHolman()", nbody.HybridWisdomHolman(), _setup("trace")),
        Contest("IAS15()", nbody.IAS15(), _setup("ias15"), 1.0),
    )


def measure(effort: Effort) -> list[Row]:
    """Outer Solar System, then gradients of three planets."""
    steps = effort.size(20_000, 200)
    system = _outer_planets()
    rows = [_contest(effort, system, case, steps) for case in _contests()]
    swept = sweep_of_planets(effort, effort.size(256, 8), effort.size(5000, 50), 0.35)
    return [*rows, *_gradients(effort), swept]


CASE = Case("orbit_integrators", __doc__ or "", measure)


def _outer_planets() -> nbody.NBody:
    """With G = 1."""
    known = problems.outer_solar_system()
    bodies = known.bodies
    assert known.gravity is not None
    gm = known.gravity.G * bodies.masses
    return nbody.NBody(nbody.Bodies(gm, bodies.positions, bodies.velocities))


def _method(solver: Any) -> ds.Method:
    if isinstance(solver, nbody.IAS15):
        return ds.Method(solver, max_steps=1_000_000)
    return ds.Method(solver, step=PERIOD / 20)


def _contest(effort: Effort, system: nbody.NBody, case: Contest, steps: int) -> Row:
    """A run of both without outputs on the way."""
    end = steps * PERIOD / 20

    def run(bodies):
        system = nbody.NBody(bodies)
        return ds.simulate(system, end, _method(case.solver)).states

    program = compiled(run, system.bodies)
    made: list[Any] = []

    def theirs():
        simulation = rebound(system)
        case.setup(simulation)
        made[:] = [simulation]
        # As many steps, or for one that chooses them the same time.
        if isinstance(case.solver, nbody.IAS15):
            return lambda: simulation.integrate(end)
        return lambda: simulation.integrate(end, exact_finish_time=0)

    times = contest(effort, ours=program.turn, theirs=theirs)
    made[0].synchronize()
    found = program.value.positions, program.value.velocities
    error = _energy_error(system, found)
    peer_error = _energy_error(system, states_of(made[0]))
    return _row(
        f"{case.name}, outer Solar System, {steps // 20} periods of Jupiter",
        program,
        times,
        peer="REBOUND",
        target=case.target,
        error=error,
        reference="energy",
        details={"energy_error": error, "peer_energy_error": peer_error},
    )


def _row(what: str, program: Program, times: dict[str, Times], **rest: Any) -> Row:
    return ratio(what, times["ours"], times["theirs"], program=program, **rest)


def rebound(system: nbody.NBody) -> Any:
    """The same bodies for REBOUND."""
    bodies = system.bodies
    simulation = rebound_of(bodies.masses, bodies.positions, bodies.velocities)
    simulation.dt = PERIOD / 20
    return simulation


def _energy_error(system: nbody.NBody, end: Any) -> float:
    """Relative change of the energy, in long double."""
    start = system.bodies.positions, system.bodies.velocities
    gm = np.asarray(system.bodies.masses, np.longdouble)
    first, last = (_energy(gm, *map(np.asarray, state)) for state in (start, end))
    return float(abs(last / first - 1))


def _energy(gm: np.ndarray, x: np.ndarray, v: np.ndarray) -> Any:
    x, v = x.astype(np.longdouble), v.astype(np.longdouble)
    i, j = np.triu_indices(gm.size, 1)
    r = np.sqrt(np.sum((x[i] - x[j]) ** 2, -1))
    return np.sum(gm * np.sum(v * v, -1)) / 2 - np.sum(gm[i] * gm[j] / r)


def _three_planets() -> nbody.Bodies:
    orbits = nbody.Elements(
        semi_major_axis=[1.0, 1.6, 2.4],
        eccentricity=[0.05, 0.03, 0.02],
        true_anomaly=[0.0, 2.0, 4.0],
    )
    return nbody.Bodies.from_elements([1.0, 1e-4, 2e-4, 1e-4], orbits)


def _gradients(effort: Effort) -> list[Row]:
    """Gradients in all masses, positions and velocities, as multiples of the run."""
    steps = effort.size(2800, 40)
    runs = _values_and_gradients(steps)
    times = contest(effort, **{name: run.turn for name, run in runs.items()})

    def row(solver, name, target, of=None):
        return ratio(
            f"gradient, {solver}, three planets, {steps // 20} periods",
            times[f"{name}_gradient"],
            times[of or name],
            program=runs[f"{name}_gradient"],
            target=target,
            peer=_DOPRI8 if of else "its own run",
        )

    return [
        row("WisdomHolman", "map", 4.0),
        row("HybridWisdomHolman", "hybrid", 4.0),
        row("IAS15", "ias15", 5.0),
        row("IAS15", "ias15", 0.3, of="dopri8_gradient"),
    ]


_DOPRI8 = "Dopri8 at 1e-13, `diffrax.RecursiveCheckpointAdjoint`"


def _values_and_gradients(steps: int) -> dict[str, Program]:
    """Of the sum of squares of a final state; of Dopri8 the gradient alone."""
    bodies, step = _three_planets(), 2 * np.pi / 20
    by_dopri = ds.Method(
        diffrax.Dopri8(),
        controller=diffrax.PIDController(rtol=1e-13, atol=1e-13),
        max_steps=20_000,
        adjoint=diffrax.RecursiveCheckpointAdjoint(),
    )
    methods = {
        "map": ds.Method(nbody.WisdomHolman(corrector=17), step=step),
        "hybrid": ds.Method(nbody.HybridWisdomHolman(corrector=17), step=step),
        "ias15": ds.Method(nbody.IAS15(), max_steps=20_000),
    }

    def total(method):
        def of(bodies):
            states = ds.simulate(nbody.NBody(bodies), steps * step, method).states
            return jnp.sum(states.positions**2) + jnp.sum(states.velocities**2)

        return of

    runs = {name: compiled(total(method), bodies) for name, method in methods.items()}
    for name, method in {**methods, "dopri8": by_dopri}.items():
        runs[f"{name}_gradient"] = compiled(jax.grad(total(method)), bodies)
    return runs


def sweep_of_planets(effort: Effort, runs: int, steps: int, target: float) -> Row:
    """Many systems of five bodies by the map, and REBOUND's loop over them."""
    system, end = _outer_planets(), steps * PERIOD / 20
    method = _method(nbody.WisdomHolman())
    random = np.random.default_rng(0)
    x = np.asarray(system.bodies.positions)
    moved = x * (1 + 1e-3 * random.normal(size=(runs, *x.shape)))

    def final(system):
        return ds.simulate(system, end, method).states.positions

    def ours():
        return lambda: ds.sweep(final, system, {"bodies.positions": moved}).outputs

    def theirs():
        simulations = []
        for positions in moved:
            simulation = rebound(system)
            for particle, place in zip(simulation.particles, positions, strict=True):
                particle.x, particle.y, particle.z = place
            _whfast()(simulation)
            simulations.append(simulation)

        def loop():
            for simulation in simulations:
                simulation.integrate(end, exact_finish_time=0)

        return loop

    times = contest(effort, ours=ours, theirs=theirs)
    return ratio(
        f"`sweep` of {runs} systems of 5 bodies, {steps} steps of WisdomHolman",
        times["ours"],
        times["theirs"],
        peer="REBOUND's loop, WHFast",
        target=target,
    )
