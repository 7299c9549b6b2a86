"""Every likelihood under fit, fisher and log_density, in every transformation.

With `a + c` in place of a parameter a, the best fit is â − c: its derivative by c is −1
and its second derivative 0. Information and density have theirs by differences.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihood_cases import CASES

from diffsim.inference import fisher, fit, log_density


ACTS = ("fit", "expected", "observed", "log_density")
#: Plain rows: each act, of likelihoods that share no code.
DIAGONAL = {
    ("poisson", "fit"),
    ("student_t", "expected"),
    ("binomial", "observed"),
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


def shifted(case, act):
    """A number made of a fit, an information or a density, as a function of c."""
    # A curvature is positive near the best fit.
    model = case.model
    if act == "observed":
        given = {"noise": case.noise, "free": case.start}
        model = fit(case.predict, model, case.data, **given).model

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
            values = fit(predict, model, jnp.asarray(case.data), **given).values
            return values[0] + 0.3 * jnp.sum(values[1:])
        if act == "log_density":
            density = log_density(predict, model, case.data, **given)
            return density(0.9 * density.start)
        data = {"data": case.data} if act == "observed" else {}
        found = fisher(predict, model, kind=act, **given, **data)
        weights = 1 + jnp.arange(found.matrix.size).reshape(found.matrix.shape)
        return jnp.sum(jnp.cos(weights) * found.matrix)

    return at


@pytest.mark.parametrize(("name", "act"), TABLE)
def test_derivatives_are_right_in_every_transformation(name, act):
    """grad and its jvp in a batch, and jacfwd, compiled; the value eagerly."""
    at = shifted(CASES[name], act)

    def forward_over_reverse(c):
        (value, slope), (_, second) = jax.jvp(
            jax.value_and_grad(at), (c,), (jnp.ones_like(c),)
        )
        return value, slope, second

    @jax.jit
    def everything(c):
        batch = c + H * jnp.array([-1.0, 0.0, 1.0])
        return *jax.vmap(forward_over_reverse)(batch), jax.jacfwd(at)(c)

    values, slopes, seconds, forward = map(np.asarray, everything(C))
    np.testing.assert_allclose(values[1], at(jnp.array(C)), rtol=1e-7)
    np.testing.assert_allclose(slopes[1], forward, rtol=1e-7, atol=1e-9)
    first = -1.0 if act == "fit" else (values[2] - values[0]) / (2 * H)
    curvature = 0.0 if act == "fit" else (slopes[2] - slopes[0]) / (2 * H)
    size = 1 + np.max(np.abs(slopes)) + np.abs(curvature)
    assert abs(forward - first) <= 1e-5 * size
    assert abs(seconds[1] - curvature) <= 1e-5 * size
