"""E − e sin E = M, and its derivative in every mode.

Roots are checked in the 80 bits of NumPy's long double.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim.verify import taylor_test


EPS = np.finfo(float).eps
solve = jax.jit(nbody.eccentric_anomaly)


def pairs(count, largest, seed=0):
    """M over three turns, half of them near pericenter; e up to `largest`."""
    random = np.random.default_rng(seed)
    m = random.uniform(-6 * np.pi, 6 * np.pi, count)
    near = random.random(count) < 0.5
    m = np.where(near, m * 10.0 ** random.uniform(-12, 0, count), m)
    # half of them crowd at the largest
    gap = (1 - largest) * 10.0 ** random.uniform(0, -np.log10(1 - largest), count)
    crowded = random.random(count) < 0.5
    return m, np.where(crowded, np.maximum(1 - gap, 0), largest * random.random(count))


def lag(anomaly):
    """E − sin E in long double, where it is small by its series."""
    series, term = 0, anomaly**3 / 6
    for k in range(2, 12):
        series = series + term
        term = -term * anomaly**2 / (2 * k * (2 * k + 1))
    return np.where(np.abs(anomaly) < 1, series, anomaly - np.sin(anomaly))


def residual(anomaly, m, e):
    anomaly, m, e = (np.asarray(a, np.longdouble) for a in (anomaly, m, e))
    return (1 - e) * anomaly + e * lag(anomaly) - m


@pytest.mark.gpu
@pytest.mark.parametrize("largest", [0.999, 1 - 1e-9])
def test_kepler_equation_holds_to_four_ulp(largest):
    m, e = pairs(200_000, largest)
    anomaly = np.asarray(solve(m, e))
    rounding = np.spacing(np.maximum(np.abs(anomaly), 1))
    assert np.max(np.abs(residual(anomaly, m, e)) / rounding) <= 4


def test_small_anomalies_have_small_relative_error():
    m, e = pairs(100_000, 1 - 1e-9, seed=1)
    inside = np.abs(m) < np.pi
    m, e = m[inside], e[inside]
    anomaly = np.asarray(solve(m, e))
    slope = (1 - e) + 2 * e * np.sin(anomaly / 2) ** 2
    error = np.abs(residual(anomaly, m, e)) / slope
    # two roundings of E at the end, and those of three terms near pericenter
    assert np.max(error / np.maximum(np.abs(anomaly), 1e-300)) <= 8 * EPS


@pytest.mark.parametrize("e", [0.0, 0.3, 0.999])
def test_eccentric_anomaly_is_equivariant_under_full_turns(e):
    m, turns = np.meshgrid(np.linspace(-3, 3, 7), np.arange(-5, 6))
    whole = 2 * np.pi * turns
    shifted = solve(m + whole, e)
    # M + 2πk is rounded before it comes in, and E moves 1/(1 − e) times as much
    tolerance = 2 * np.spacing(40.0) / (1 - e)
    np.testing.assert_allclose(shifted - whole, solve(m, e), rtol=0, atol=tolerance)


def test_circular_orbits_and_apsides_are_exact():
    m = np.linspace(-10, 10, 101)
    np.testing.assert_array_max_ulp(np.asarray(solve(m, 0.0)), m, 1)
    e = np.array([0.0, 0.5, 0.999, 1 - 1e-16])
    np.testing.assert_array_equal(solve(0.0, e), np.zeros(4))
    np.testing.assert_array_max_ulp(np.asarray(solve(np.pi, e)), np.full(4, np.pi), 1)


@pytest.mark.parametrize("e", [-1e-9, 1.0, 1.5, np.nan, np.inf])
def test_eccentricities_outside_zero_to_one_raise_or_are_nan(e):
    value, slopes = jax.value_and_grad(nbody.eccentric_anomaly, (0, 1))(0.3, e)
    assert np.isnan([value, *slopes]).all()
    among = nbody.eccentric_anomaly(0.0, [0.5, e])
    np.testing.assert_array_equal(among, [0.0, np.nan])
    with pytest.raises(ValueError, match="eccentricity must be from 0 to below 1, got"):
        nbody.eccentric_anomaly(0.3, e)


def test_shapes_broadcast_and_single_precision_is_kept():
    m, e = np.linspace(-9, 9, 5, dtype=np.float32), np.float32([[0.1], [0.97]])
    found = nbody.eccentric_anomaly(m, e)
    assert found.shape == (2, 5) and found.dtype == np.float32
    np.testing.assert_allclose(
        found, solve(np.float64(m), np.float64(e)), rtol=4e-6, atol=0
    )
    with pytest.raises(ValueError, match=r"mean_anomaly \(5,\), eccentricity \(2,\)"):
        nbody.eccentric_anomaly(m, e[:, 0])


def test_taylor_remainders_fall_with_slope_two_and_modes_agree():
    m, e = pairs(20, 0.5, seed=2)
    found = taylor_test(solve, jnp.asarray(m), jnp.asarray(e))
    assert found.passed, found
    assert found.disagreement < 1e-10


def derivatives(m, e):
    """Gradient and Hessian of E in M and e, in closed form."""
    anomaly = np.asarray(solve(m, e))
    sine, cosine = np.sin(anomaly), np.cos(anomaly)
    d = 1 - e * cosine
    bend = cosine - e * sine**2 / d
    gradient = np.array([1 / d, sine / d])
    mixed = bend / d**2
    curved = sine * (cosine + bend) / d**2
    return gradient, np.array([[-e * sine / d**3, mixed], [mixed, curved]])


NESTINGS = list(itertools.product((jax.jacrev, jax.jacfwd), repeat=2))
names = [f"{a.__name__} of {b.__name__}" for a, b in NESTINGS]


@pytest.mark.parametrize("nesting", first_plain([(n,) for n in NESTINGS], 2), ids=names)
def test_second_derivatives_are_those_in_closed_form(nesting):
    outer, inner = nesting
    m, e = pairs(100, 0.95, seed=3)

    def one(at):
        return nbody.eccentric_anomaly(*at)

    every = jax.jit(jax.vmap(lambda at: (inner(one)(at), outer(inner(one))(at))))
    first, second = every(jnp.stack([m, e], -1))
    gradient, hessian = derivatives(m, e)
    for found, exact in ((first.T, gradient), (jnp.moveaxis(second, 0, -1), hessian)):
        # roundings of E times the next derivative, which is 1/(1 − e) times as large
        scale = np.max(np.abs(exact), axis=tuple(range(exact.ndim - 1)))
        assert np.max(np.abs(found - exact) / scale) < 1e-12


def by_newton(m, e):
    """The root held constant, and Newton steps from it that JAX differentiates.

    One is right to first order, two to third, three to seventh.
    """
    anomaly = jax.lax.stop_gradient(nbody.eccentric_anomaly(m, e))
    for _ in range(3):
        f = anomaly - e * jnp.sin(anomaly) - m
        anomaly = anomaly - f / (1 - e * jnp.cos(anomaly))
    return anomaly


def scanned(anomaly_of):
    def step(m, e):
        m = 0.5 * anomaly_of(m, e) + e
        return m, m**2

    return lambda at: jnp.sum(jax.lax.scan(step, at[0], at[1] * jnp.array([1, 0.5]))[1])


@pytest.mark.parametrize("outer", first_plain([jax.jacfwd, jax.jacrev]))
def test_second_derivatives_are_right_inside_a_scan(outer):
    at = jnp.array([1.2, 0.7])
    found, exact = (
        jax.jit(outer(jax.jacrev(scanned(f))))(at)
        for f in (nbody.eccentric_anomaly, by_newton)
    )
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert np.min(np.abs(exact)) > 0.05
