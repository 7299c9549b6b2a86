"""Minima are accurate in any units, and nothing else is reported as one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.implicit import (
    Newton,
    least_squares,
    least_squares_solution,
    minimise,
    minimise_solution,
)


def well(y, scale):
    return scale * (y**2 - 1) ** 2


def quartic(y, unit):
    return (y / unit - 1) ** 2 + (y / unit - 1) ** 4


def root_of_well(y, scale):
    return jnp.stack([scale * (y**2 - 1), 0 * y])


def bent(y, scale):
    """Least where exp(y) (exp(y) - 2) + (y / 10 - 3 / 10) / 10 vanishes."""
    return scale * jnp.stack([jnp.exp(y) - 2, 0.1 * y - 0.3])


def bent_in(y, unit):
    return bent(y / unit, 1.0)


SCALAR = {minimise: [well, quartic], least_squares: [root_of_well, bent, bent_in]}
#: Of one unknown and a number, for all of which a layer is compiled at once.
ONE_OF_ALL = {
    layer: lambda y, args, functions=functions: jax.lax.switch(
        args[0], functions, y, args[1]
    )
    for layer, functions in SCALAR.items()
}


WITH_STATUS = {minimise: minimise_solution, least_squares: least_squares_solution}


def found_by(solve, function, guess, args: Any = 1.0, **options):
    # Arrays, so that what is compiled for one number serves for the next.
    guess, args = jnp.asarray(guess), jnp.asarray(args)
    if function in SCALAR[solve]:
        args = jnp.asarray(SCALAR[solve].index(function)), args
        function = ONE_OF_ALL[solve]
    return WITH_STATUS[solve](function, guess, args, throw=False, **options)


SCALES = [1e-100, 1e-12, 1e-8, 1.0, 1e12]


@pytest.mark.parametrize("scale", SCALES)
def test_scaling_the_objective_changes_neither_minimum_nor_iterations(scale):
    for solve, function in ((minimise, well), (least_squares, root_of_well)):
        ours, same = (found_by(solve, function, 0.05, s) for s in (scale, 1.0))
        assert ours.status == RESULTS.successful
        np.testing.assert_allclose(ours.value, 1, rtol=1e-14)
        assert ours.iterations == same.iterations


@pytest.mark.parametrize("hessian", first_plain(["full", "gauss_newton"]))
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e12])
def test_scaling_the_residuals_does_not_change_the_minimum(scale, hessian):
    found = found_by(least_squares, bent, 0.0, scale, hessian=hessian)
    assert found.status == RESULTS.successful
    y = found.value
    slope = jnp.exp(y) * (jnp.exp(y) - 2) + 0.1 * (0.1 * y - 0.3)
    # J^T J is the Hessian but for a hundredth, which the polishing step leaves.
    assert abs(slope) < (1e-15 if hessian == "full" else 1e-9)


def test_a_decay_is_fitted_in_few_steps_in_any_unit_of_the_data():
    t = jnp.linspace(0, 3, 20)

    def residuals(y, scale):
        return scale * (jnp.exp(-y * t) - jnp.exp(-0.7 * t))

    for scale in (1e-12, 1e-4, 1.0, 1e12):
        found = found_by(least_squares, residuals, 1.0, scale)
        np.testing.assert_allclose(found.value, 0.7, rtol=1e-13)
        assert found.iterations <= 14


@pytest.mark.parametrize("unit", [1e-20, 1e-5, 1.0, 1e20, 1e100])
@pytest.mark.parametrize("guess", [0.0, 2.0])
def test_minimum_is_accurate_in_any_unit(unit, guess):
    found = found_by(minimise, quartic, guess * unit, unit)
    assert found.status == RESULTS.successful
    np.testing.assert_allclose(found.value, unit, rtol=1e-14)
    assert found.iterations < 20
    found = found_by(least_squares, bent_in, guess * unit, unit)
    one = found_by(least_squares, bent, guess)
    np.testing.assert_allclose(found.value, unit * one.value, rtol=1e-14)


@pytest.mark.parametrize("solve", first_plain([least_squares, minimise]))
def test_unknowns_of_one_array_may_differ_in_units(solve):
    units = jnp.array([1e-20, 1e20])

    def valley(y, units):
        x = y / units
        return jnp.stack([1 - x[0], 10 * (x[1] - x[0] ** 2)])

    def sum_of_squares(y, units):
        return jnp.sum(valley(y, units) ** 2)

    function = valley if solve is least_squares else sum_of_squares
    found = found_by(solve, function, jnp.array([-1.2, 1.0]) * units, units)
    np.testing.assert_allclose(found.value, units, rtol=1e-13)


def test_many_unknowns_and_several_arrays_have_their_own_units():
    units = {"a": 1e-4, "b": 1e6}

    def chain(y, units):
        x = jnp.concatenate([y["a"] / units["a"], y["b"] / units["b"]])
        return jnp.sum(jnp.cosh(x - 1)) + jnp.sum((x[1:] - x[:-1]) ** 2)

    guess = {name: jnp.zeros(20) for name in units}
    found = minimise(chain, guess, units)
    for name, unit in units.items():
        np.testing.assert_allclose(found[name], unit, rtol=1e-13)


def test_single_precision_minimum_is_accurate_in_any_unit():
    for unit in (1e-12, 1.0, 1e12):
        unit = jnp.float32(unit)
        found = minimise(lambda y, u: jnp.cosh(y / u - 1), 3 * unit, unit)
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, unit, rtol=1e-6)


def test_batched_minima_of_different_scales_are_accurate():
    scales = jnp.array(SCALES[1:])
    found = jax.vmap(lambda s: minimise(well, 0.05, s))(scales)
    np.testing.assert_allclose(found, 1, rtol=1e-14)


SADDLES = {
    "maximum": (minimise, well, 0.0, {}),
    "beside a maximum": (minimise, well, 1e-9, {}),
    "maximum of squares": (least_squares, root_of_well, 0.0, {}),
    "saddle": (minimise, lambda y, _: y[0] ** 2 - y[1] ** 2, [1.0, 0.0], {}),
    "Newton's": (minimise, well, 0.05, {"solver": Newton()}),
    "stops early": (minimise, well, 0.05, {"solver": optx.BFGS(1e-8, 1e-8)}),
}


@pytest.mark.parametrize("case", SADDLES)
def test_saddles_and_maxima_are_not_reported_as_minima(case):
    solve, function, guess, options = SADDLES[case]
    scale = 1e-8 if case == "stops early" else 1.0
    found = found_by(solve, function, jnp.asarray(guess), scale, **options)
    assert found.status == RESULTS.no_minimum
    assert np.all(np.isnan(found.value))
