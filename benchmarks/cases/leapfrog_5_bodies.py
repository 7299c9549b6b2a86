"""Leapfrog of 5 bodies: run, gradient and Jacobian against REBOUND's run."""

from typing import Any

import diffrax
import jax
import numpy as np

from diffsim import integrators, simulations

from .._harness import Case, Effort, Program, Row, compiled, contest, deviation, ratio
from .._peers import integrate, states_at
from . import _five_bodies as five
from ._five_bodies_reference import References, column_errors, references


_LONG_DOUBLE = "complex step in long double"

#: An output costs REBOUND a call from Python; without outputs it runs 12 % faster.
_PEERS = {
    "rebound": "REBOUND's run",
    "rebound_alone": "REBOUND's run without outputs",
}


def measure(effort: Effort) -> list[Row]:
    """Everything in one contest, REBOUND among it."""
    problem = five.problem(effort)
    programs = _programs(problem)

    def rebound():
        simulation = five.rebound(five.start())
        return lambda: integrate(simulation, problem.times)

    def rebound_alone():
        simulation = five.rebound(five.start())
        return lambda: simulation.steps(problem.steps)

    turns = {name: program.turn for name, program in programs.items()}
    times = contest(effort, rebound=rebound, rebound_alone=rebound_alone, **turns)
    exact = references(problem.steps, len(problem.times))

    def row(what: str, name: str, peer: str = "rebound", **rest: Any) -> Row:
        what = f"{what}, {problem.steps} steps of 5 bodies"
        rest |= {"program": programs[name], "peer": _PEERS[peer]}
        return ratio(what, times[name], times[peer], **rest)

    # As (position, velocity), for REBOUND and us alike.
    found = programs["run"].value
    theirs = states_at(five.rebound(five.start()), problem.times)
    error = deviation((found.positions, found.velocities), theirs)
    gradient, jacobian = "gradient in 35 numbers", "Jacobian in 15 numbers"
    return [
        row("run", "run", target=1.0, error=error, reference="REBOUND"),
        row("run", "run", "rebound_alone"),
        row(gradient, "gradient", target=4.0, **_gradient(programs["gradient"], exact)),
        row(
            jacobian, "jacobian", target=20.0, **_jacobian(programs["jacobian"], exact)
        ),
        row(
            f"{gradient}, `Reversible`",
            "reversible",
            **_gradient(programs["reversible"], exact),
        ),
        row(
            f"{gradient}, `diffrax.diffeqsolve` with checkpoints",
            "diffrax",
            **_gradient(programs["diffrax"], exact),
        ),
    ]


CASE = Case("leapfrog_5_bodies", __doc__ or "", measure)


def _programs(problem: five.Problem) -> dict[str, Program]:
    def run(vector, adjoint=None):
        return five.states(vector, problem.times, adjoint)

    def gradient(function):
        # Masses, positions and velocities apart: as a user has them.
        def loss(m, x, v):
            vector = jax.numpy.concatenate([m, x.ravel(), v.ravel()])
            return five.sum_of_squares(function(vector))

        inputs = map(jax.numpy.asarray, five.arrays(five.start()))
        return compiled(jax.grad(loss, (0, 1, 2)), *inputs)

    reversible = simulations.Reversible()
    return {
        "run": compiled(run, five.start()),
        "gradient": gradient(run),
        "reversible": gradient(lambda vector: run(vector, reversible)),
        "diffrax": gradient(lambda vector: _by_diffrax(vector, problem)),
        "jacobian": compiled(jax.jacfwd(lambda p: run(five.moved(p))), np.zeros(15)),
    }


def _by_diffrax(vector: Any, problem: five.Problem) -> Any:
    """The same solver and forces in Diffrax's own loop."""
    system = five.system(vector)
    solution = diffrax.diffeqsolve(
        system.terms(),
        integrators.Leapfrog(),
        0.0,
        problem.times[-1],
        five.STEP,
        system.initial_state(),
        args=system,
        saveat=diffrax.SaveAt(ts=jax.numpy.asarray(problem.times)),
        adjoint=diffrax.RecursiveCheckpointAdjoint(),
        max_steps=problem.steps + 1,
    )
    return jax.vmap(system.observe)(jax.numpy.asarray(problem.times), solution.ys)


def _gradient(program: Program, exact: References | None) -> dict[str, Any]:
    if exact is None:
        return {}
    error = deviation(program.value, five.arrays(exact.gradient))
    return {"error": error, "reference": _LONG_DOUBLE}


def _jacobian(program: Program, exact: References | None) -> dict[str, Any]:
    if exact is None:
        return {}
    error = column_errors(five.jacobian_of(program.value), exact).max()
    return {"error": float(error), "reference": _LONG_DOUBLE}
