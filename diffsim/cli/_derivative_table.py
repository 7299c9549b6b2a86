"""`verify --derivatives`: Taylor tests of every equation by every time integrator."""

from collections.abc import Iterator

import diffrax

from .. import integrators, pde
from ..problems import PDE_PROBLEMS
from ..simulations import AbstractSimulation, Method, simulate
from ..verify import TaylorReport, taylor_test
from ._integrator_table import furthest
from ._table_printing import Measured, tabulated


#: Two steps, the second from where the first ended.
_TIMES, _STEP = (0.01, 0.02), 0.01
_DISAGREEMENT = 1e-10


#: Solvers that go with a kind of dynamics.
_EXPLICIT = integrators.SSPRK3, diffrax.Dopri8
_SPLIT = (
    integrators.KenCarp3,
    integrators.KenCarp4,
    integrators.KenCarp5,
    integrators.ARS222,
    integrators.ARS443,
)
_IMPLICIT = integrators.Kvaerno3, integrators.Kvaerno5, integrators.CrankNicolson
_EXPONENTIAL = integrators.ETDRK2, integrators.ETDRK4
_SYMPLECTIC = integrators.Leapfrog, integrators.Yoshida4


def derivatives(*, markdown: bool = False) -> int:
    """Print the Taylor slopes of every equation × time integrator.

    **Returns:** 0, or 1 if one falls short of 2, or forward and reverse mode disagree.
    """
    cases = [
        (f"{name}, {solver.__name__ if solver else 'by default'}", (name, solver))
        for name, solver in all_cases()
    ]
    header = "equation", "time integrator", "leaves", "forward", "reverse"
    header += ("forward − reverse",)
    return tabulated(header, cases, _row, left=2, markdown=markdown)


def all_cases() -> Iterator[tuple[str, type | None]]:
    """All that go together; None is the default of the equation."""
    for name, make in PDE_PROBLEMS.items():
        yield name, None
        for solver in _integrators_for(make()):
            yield name, solver


def slopes(name: str, solver: diffrax.AbstractSolver | None) -> TaylorReport:
    """A Taylor test in every leaf, at the steps that are taken."""
    system = PDE_PROBLEMS[name]()
    method = Method(solver, step=_STEP) if solver else system.default_method()
    if method.adaptive:
        method = method.freeze_steps(simulate(system, _TIMES, method))
    return taylor_test(
        lambda system: simulate(system, _TIMES, method, throw=False).states, system
    )


def _integrators_for(system: AbstractSimulation) -> tuple[type, ...]:
    if isinstance(system, pde.IncompressibleFlow):
        return _EXPLICIT + _SPLIT
    assert isinstance(system, pde.Evolution)
    if isinstance(system.equation, pde.AbstractSplitStepEquation):
        return _SYMPLECTIC
    if isinstance(system.equation, pde.AbstractSecondOrderInTime):
        return _SYMPLECTIC + _EXPLICIT
    if isinstance(system.discretization, pde.Fourier):
        return _EXPONENTIAL + _EXPLICIT
    if not isinstance(system.equation, pde.AbstractIMEXEquation):
        return _EXPLICIT
    start = system.initial_field
    implicit = system.equation.explicit(system.t0, start, system.domain) is None
    return _EXPLICIT + _SPLIT + (_IMPLICIT if implicit else ())


def _row(case: tuple[str, type | None]) -> Measured:
    name, solver = case
    taylor = slopes(name, solver() if solver else None)
    modes = [furthest(taylor, mode) for mode in ("forward", "reverse")]
    failures = [f"Taylor slope of {x.name}" for x in taylor.leaves if not x.passed]
    disagreement = f"{taylor.disagreement:.0e}"
    # Written so that NaN fails.
    if not taylor.disagreement < _DISAGREEMENT:
        failures.append(f"modes disagree by {disagreement}")
    integrator = solver.__name__ if solver else "default"
    numbers = (str(len(taylor.leaves)), *(f"{x:.3f}" for x in modes), disagreement)
    return Measured((name, integrator, *numbers), tuple(failures))
