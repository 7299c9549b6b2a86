"""Every problem with an exact answer, by a method that reaches it."""

import dataclasses

import diffrax
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import KahanLi6, KahanLi8
from diffsim.problems import NBODY_PROBLEMS, mercury
from diffsim.simulations import Method


def _to_rounding(rtol, max_steps):
    controller = diffrax.PIDController(rtol=rtol, atol=rtol)
    return Method(diffrax.Dopri8(), controller=controller, max_steps=max_steps)


#: The Moon sets the step: 36 a month. It divides a year and ten.
_MONTHLY = Method(diffrax.Dopri8(), 0.75)

_METHODS = {
    # The exact flow closes to 5e-14, Dopri8 at 316 steps a period to the same.
    "figure-8": Method(diffrax.Dopri8(), 0.02),
    "Pythagorean": _to_rounding(1e-14, 2048),
    "variations": Method(KahanLi6(), np.pi / 400),
    "outer Solar System": Method(KahanLi6(), 1.0),
    "Kepler": Method(KahanLi8(), 0.025),
    "Mercury": _to_rounding(1e-13, 8192),
    "DE440, Newton": _MONTHLY,
    "DE440, EIH": _to_rounding(1e-14, 16_384),
}
#: Take seconds to compile, of the same forces as others.
_SLOW = [
    *((name, _METHODS[name]) for name in ("Mercury", "DE440, EIH")),
    ("variations", Method(diffrax.Dopri8(), np.pi / 60)),
    ("DE440, EIH", _MONTHLY),
]
_ROWS = [row for row in _METHODS.items() if row not in _SLOW]
_PROBLEMS = {problem.name: problem for problem in NBODY_PROBLEMS}


def test_every_problem_has_a_method():
    assert len(_PROBLEMS) == len(NBODY_PROBLEMS), "names differ"
    assert set(_PROBLEMS) == set(_METHODS)


@pytest.mark.parametrize(("name", "method"), first_plain(_ROWS + _SLOW, len(_ROWS)))
def test_every_problem_reaches_its_exact_answer(name, method):
    problem = _PROBLEMS[name]
    found = problem.found(method)
    for exact, value in zip(problem.exact, found, strict=True):
        error = exact.error(value)
        assert error <= exact.tolerance, f"{exact.quantity}: {value}, off by {error}"


def test_central_term_precesses_the_perihelion_as_all_pairs_do():
    problem = dataclasses.replace(
        _PROBLEMS["Mercury"], simulation=lambda: mercury(primary=0)
    )
    (exact,) = problem.exact
    (found,) = problem.found(_METHODS["Mercury"])
    assert exact.error(found) <= exact.tolerance
