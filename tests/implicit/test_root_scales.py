"""Roots are accurate in any units, and nothing else is reported as one."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
import scipy.optimize
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.implicit import (
    BracketedNewton,
    ImplicitAdjoint,
    Krylov,
    Newton,
    NewtonKrylov,
    root,
    root_solution,
)


def solved(residual, guess, args=None, **options):
    # Arrays, so that what is compiled for one number serves for the next.
    given = [jnp.asarray(a) if a is not None else None for a in (guess, args)]
    found = root_solution(residual, *given, throw=False, **options)
    return found.value, found.status


def exponential(y, unit):
    """The root is unit times the logarithm of 5."""
    return jnp.exp(y / unit) - 5


NEWTONS = {"Newton": {}, "Krylov": {"adjoint": ImplicitAdjoint(Krylov())}}
#: Of the unit: to rounding, and what an inexact last step leaves at the default.
LEFT = {"Newton": 3e-15, "Krylov": 1e-11}


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e-10, 1e-5, 1.0, 1e10, 1e100])
@pytest.mark.parametrize("newton", NEWTONS)
def test_root_is_accurate_in_any_unit(unit, newton):
    for guess in (0.0, unit, 3 * unit):
        value, status = solved(exponential, guess, unit, **NEWTONS[newton])
        assert status == RESULTS.successful
        np.testing.assert_allclose(value, unit * np.log(5), rtol=LEFT[newton])


def cubic(y, a):
    return y**3 - a


@pytest.mark.parametrize("cube", [1e-30, 1e-60, 1e30])
@pytest.mark.parametrize("guess", [1.0, 2.0])
def test_cube_root_far_from_the_guess_is_accurate(cube, guess):
    value, status = solved(cubic, guess, cube)
    assert status == RESULTS.successful
    np.testing.assert_allclose(value, np.cbrt(cube), rtol=1e-15)


def test_batched_roots_of_different_units_are_accurate():
    units = 10.0 ** jnp.array([-30, -10, 0, 10])
    found = jax.vmap(lambda unit: root(exponential, unit, unit))(units)
    np.testing.assert_allclose(found, units * np.log(5), rtol=4e-15)


def test_unknowns_of_one_array_may_differ_in_units():
    units = jnp.array([1.0, 1e-10, 1e8, 1e-3])
    exact = units * np.log(5)
    # What is known of the large ones already says nothing of the small ones.
    for guess in (0 * units, jnp.array([exact[0], 0, exact[2], 0])):
        found = root(exponential, guess, units)
        np.testing.assert_allclose(found, exact, rtol=4e-15)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_single_precision_root_is_accurate_in_any_unit(unit):
    unit = jnp.float32(unit)
    found = root(exponential, 0 * unit, unit)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, unit * np.log(5), rtol=1e-6)
    cube = root(cubic, jnp.float32(1), jnp.float32(1e-30))
    np.testing.assert_allclose(cube, 1e-10, rtol=1e-6)


ZEROS = {
    "linear": lambda y: 3 * y,
    "sine": lambda y: jnp.sin(y),
    "exponential": lambda y: jnp.exp(y) - 1,
    "constants that cancel": lambda y: (y + 1) ** 2 - 1,
    # Its root is 6e-17, below the rounding of the sum.
    "rounding": lambda y: jnp.cos(y + jnp.pi / 2),
    "rounding of tenths": lambda y: y + 0.1 + 0.2 - 0.3,
}
POWERS = {power: lambda y, power=power: y**power for power in (2, 3, 5)}
#: Where whole steps lead astray: a guess, and the root.
FAR = {
    "corner": (lambda y: y + 1000 * jnp.clip(y, -1e-3, 1e-3), 1.0, 0.0),
    "flat beyond": (lambda y: jnp.arctan(y - 2), 30.0, 2.0),
    "logarithm": (lambda y: jnp.log(y) - 1, 30.0, np.e),
}
NOWHERE = {
    "jump": lambda y: y + jnp.sign(y) - 0.5,
    "corner": lambda y: jnp.abs(y - 0.1) + 0.1,
    "small jump": lambda y: 1e-12 * (y + jnp.sign(y) - 0.5),
}
AT_INFINITY = (lambda y: jnp.exp(-y), lambda y: jnp.exp(-(y**2)))
OTHERS = {"flat": jnp.arctan, "line": lambda y: y - 2, "never zero": lambda y: y**2 + 1}
SCALAR = [*ZEROS.values(), *POWERS.values(), *(row[0] for row in FAR.values())]
SCALAR += [*NOWHERE.values(), *AT_INFINITY, *OTHERS.values()]


def one_of_all(y, which):
    """One of the equations, all of which a solver is compiled for at once."""
    return jax.lax.switch(which, SCALAR, y)


def solved_by(newton, function, guess):
    which = SCALAR.index(function)
    return solved(one_of_all, guess, which, **NEWTONS[newton])


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("newton", NEWTONS)
def test_zero_root_is_found_from_any_guess(zero, newton):
    for guess in (0.0, 1e-17, 0.3):
        value, status = solved_by(newton, ZEROS[zero], guess)
        assert status == RESULTS.successful
        assert abs(value) < LEFT[newton] / 10


@pytest.mark.parametrize("power", POWERS)
def test_multiple_root_at_zero_is_found(power):
    """Each step takes a fraction of what is left, for ever."""
    value, status = solved_by("Newton", POWERS[power], 1.0)
    assert status == RESULTS.successful
    assert abs(value) < 1e-9


def test_zero_unknown_beside_others_needs_few_iterations():
    """u'' = u³ + odd source: zero at the middle, and 1e-17 by rounding."""
    n = 41
    x = jnp.linspace(-1, 1, n + 2)[1:-1]

    def residual(u, _):
        around = jnp.pad(u, 1)
        return (around[2:] - 2 * u + around[:-2]) * (n + 1) ** 2 / 4 - u**3 - 9 * x

    found = root_solution(residual, jnp.zeros(n))
    assert abs(found.value[n // 2]) < 1e-14
    assert found.iterations <= 6


def friction(y, a):
    """A force against Coulomb friction, smoothed over a thousandth."""
    return y + a * jnp.tanh(y / 1e-3) - jnp.linspace(0.1, 0.5, y.size).reshape(y.shape)


@pytest.mark.parametrize("shape", first_plain([((5,),), ((1,),), ((),)]))
def test_step_halving_breaks_newton_cycles(shape):
    value, status = solved(friction, jnp.ones(shape), 1.0)
    assert status == RESULTS.successful
    exact = [
        scipy.optimize.brentq(
            lambda y, a=a: y + np.tanh(y / 1e-3) - a, -1, 1, xtol=1e-20
        )
        for a in np.linspace(0.1, 0.5, value.size)
    ]
    np.testing.assert_allclose(np.ravel(value), exact, rtol=1e-12)


@pytest.mark.parametrize("newton", NEWTONS)
def test_line_search_converges_where_full_newton_steps_diverge(newton):
    whole_steps = optx.Newton(rtol=1e-8, atol=1e-8)
    _, status = solved(lambda y, _: jnp.arctan(y), 20.0, solver=whole_steps)
    assert status != RESULTS.successful
    assert abs(solved_by(newton, OTHERS["flat"], 20.0)[0]) < 1e-12


def test_exact_guess_is_kept():
    for function, guess in ((POWERS[3], 0.0), (OTHERS["line"], 2.0)):
        value, _ = solved_by("Krylov", function, guess)
        assert value == guess


def test_equation_without_a_root_fails_with_nan():
    value, status = solved_by("Krylov", OTHERS["never zero"], 0.7)
    assert status == RESULTS.no_root
    assert np.isnan(value)


@pytest.mark.parametrize("case", FAR)
def test_newton_recovers_from_overshoot_and_nan(case):
    function, guess, exact = FAR[case]
    value, status = solved_by("Newton", function, guess)
    assert status == RESULTS.successful
    np.testing.assert_allclose(value, exact, rtol=1e-14)


@pytest.mark.parametrize("newton", NEWTONS)
@pytest.mark.parametrize("guess", [0.0, 0.3, 1.0])
def test_jumps_and_corners_are_not_reported_as_roots(newton, guess):
    for function in NOWHERE.values():
        value, status = solved_by(newton, function, guess)
        assert status != RESULTS.successful
        assert np.isnan(value)


@pytest.mark.parametrize("newton", NEWTONS)
def test_root_at_infinity_is_not_reported(newton):
    for function in AT_INFINITY:
        value, status = solved_by(newton, function, 0.5)
        assert status != RESULTS.successful
        assert np.isnan(value)


def jump(y):
    return jnp.where(y > 0.3, y + 1, y - 1)


NO_ROOTS = {
    "pole": (lambda y: jnp.tan(y), (1.0, 2.0)),
    "simple pole": (lambda y: 1 / (y - 0.3), (0.0, 1.0)),
    "jump": (jump, (0.0, 1.0)),
    "small jump": (lambda y: 1e-12 * jump(y), (0.0, 1.0)),
    "jump at zero": (lambda y: jnp.where(y > 0, 1.0, -1.0), (-1.0, 2.0)),
}
BRACKETS = {
    "steep": (lambda y: jnp.tanh(1e12 * (y - 0.3)), (0.0, 1.0), 0.3),
    "triple": (lambda y: (y - 0.3) ** 3, (0.0, 1.0), 0.3),
    "kink": (lambda y: jnp.sign(y - 0.3) * jnp.abs(y - 0.3) ** 0.5, (0.0, 1.0), 0.3),
    "zero": (lambda y: jnp.sin(y), (-1.0, 2.0), 0.0),
    "rounding": (lambda y: jnp.cos(y + jnp.pi / 2), (-1.0, 1.2), 0.0),
    "at an end": (lambda y: y - 1, (0.0, 1.0), 1.0),
    "tiny": (lambda y: jnp.exp(y / 1e-10) - 5, (0.0, 1e-9), 1e-10 * np.log(5)),
}
BRACKETED = [row[0] for row in (*NO_ROOTS.values(), *BRACKETS.values())]


def one_of_bracketed(y, which):
    return jax.lax.switch(which, BRACKETED, y)


def bracketed(function, ends, guess, **options):
    return root_solution(
        one_of_bracketed,
        jnp.asarray(guess),
        jnp.asarray(BRACKETED.index(function)),
        solver=BracketedNewton(*map(jnp.asarray, ends)),
        **options,
    )


@pytest.mark.parametrize("case", NO_ROOTS)
def test_sign_change_at_a_pole_or_jump_is_not_reported_as_a_root(case):
    function, ends = NO_ROOTS[case]
    found = bracketed(function, ends, sum(ends) / 3, throw=False)
    assert found.status == RESULTS.no_root
    assert np.isnan(found.value)
    with pytest.raises(RuntimeError, match="a pole or a jump"):
        bracketed(function, ends, 0.4)


@pytest.mark.parametrize("case", BRACKETS)
def test_bracketed_root_is_found(case):
    function, ends, exact = BRACKETS[case]
    found = bracketed(function, ends, sum(ends) / 3, throw=False)
    assert found.status == RESULTS.successful
    # A triple root is known to the cube root of what its cube is known to.
    np.testing.assert_allclose(found.value, exact, rtol=1e-11, atol=2e-16)


@pytest.mark.parametrize("solver", first_plain([Newton, NewtonKrylov]))
def test_premature_convergence_is_not_reported_as_a_root(solver):
    """Tolerances of 1e-8 mean nothing to an unknown of 1e-10."""
    value, status = solved(exponential, 0.0, 1e-10, solver=solver(1e-8, 1e-8))
    assert status == RESULTS.no_root
    assert np.isnan(value)
