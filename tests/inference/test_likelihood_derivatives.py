"""Every likelihood under fit, fisher and log_density, in every transformation.

With `a + c` in place of a parameter a, the best fit is â − c: its derivative by c is −1
and its second derivative 0. Information and density have theirs by differences.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihood_cases import CASES

from diffsim.inference import fisher, fit, log_density


ACTS = ("fit", "expected", "observed", "log_density")
#: Plain rows: each act, two of one fit and the others of likelihoods of other code.
DIAGONAL = {
    ("poisson", "fit"),
    ("student_t", "expected"),
    ("poisson", "observed"),
    ("custom", "log_density"),
}
TABLE = [
    pytest.param(
        *row, marks=() if row in DIAGONAL else pytest.mark.slow, id="-".join(row)
    )
    for row in ((name, act) for name in CASES for act in ACTS)
    if row != ("custom", "expected")
]
C, H = 0.05, 1e-4


@functools.cache
def best(name):
    """The fit itself, step by step: two acts look at it."""
    case = CASES[name]
    return fit(case.predict, case.model, case.data, noise=case.noise, free=case.start)


def shifted(name, act):
    """A number made of a fit, an information or a density, as a function of c."""
    case = CASES[name]
    # A curvature is positive near the best fit.
    model = best(name).model if act == "observed" else case.model

    def at(c):
        def moved(m):
            return {**m, "a": m["a"] + c}

        def predict(m):
            return case.predict(moved(m))

        def noise(m):
            return case.noise(moved(m))

        given = {"noise": noise if callable(case.noise) else case.noise}
        given["free"] = case.start
        if act == "fit":
            found = fit(predict, model, jnp.asarray(case.data), **given)
            return number_of(found.values)
        if act == "log_density":
            density = log_density(predict, model, case.data, **given)
            return density(0.9 * density.start)
        data = {"data": case.data} if act == "observed" else {}
        found = fisher(predict, model, kind=act, **given, **data)
        weights = 1 + jnp.arange(found.matrix.size).reshape(found.matrix.shape)
        return jnp.sum(jnp.cos(weights) * found.matrix)

    return at


def number_of(values):
    return values[0] + 0.3 * jnp.sum(values[1:])


@pytest.mark.parametrize(("name", "act"), TABLE)
def test_derivatives_are_right_in_every_transformation(name, act):
    """Value, jvp, grad and its jvp of one compiled batch; the value eagerly."""
    at = shifted(name, act)

    def forward_over_reverse(c):
        both = jax.value_and_grad(at)
        (value, slope), (forward, second) = jax.jvp(both, (c,), (jnp.ones_like(c),))
        return value, forward, slope, second

    batch = C + H * jnp.array([-1.0, 0.0, 1.0])
    found = jax.jit(jax.vmap(forward_over_reverse))(batch)
    values, forwards, slopes, seconds = map(np.asarray, found)
    eager = number_of(best(name).values) - C if act == "fit" else at(jnp.array(C))
    np.testing.assert_allclose(values[1], eager, rtol=1e-7)
    np.testing.assert_allclose(slopes, forwards, rtol=1e-7, atol=1e-9)
    first = -1.0 if act == "fit" else (values[2] - values[0]) / (2 * H)
    curvature = 0.0 if act == "fit" else (slopes[2] - slopes[0]) / (2 * H)
    size = 1 + np.max(np.abs(slopes)) + np.abs(curvature)
    assert abs(forwards[1] - first) <= 1e-5 * size
    assert abs(seconds[1] - curvature) <= 1e-5 * size
