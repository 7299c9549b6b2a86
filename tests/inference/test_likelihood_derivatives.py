"""Every likelihood under fit and fisher, in every transformation: one table.

With `a + c` in place of a parameter a, the best fit is â − c: its derivative by c is −1
and its second derivative 0. Information has its derivatives by differences.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihood_cases import CASES

from diffsim.inference import fisher, fit


ACTS = ("fit", "expected", "observed")
TRANSFORMS = ("grad", "jacfwd", "hessian", "vmap")
#: A row of each act and each transformation is plain, of likelihoods that differ.
DIAGONAL = {
    ("poisson", "fit", "grad"),
    ("student_t", "fit", "jacfwd"),
    ("dense_varies", "expected", "grad"),
    ("log_normal", "expected", "hessian"),
    ("binomial", "observed", "vmap"),
    ("custom", "observed", "jacfwd"),
}
TABLE = [
    pytest.param(
        *row, marks=() if row in DIAGONAL else pytest.mark.slow, id="-".join(row)
    )
    for row in ((n, a, t) for n in CASES for a in ACTS for t in TRANSFORMS)
    if row[:2] != ("custom", "expected")
]


def shifted(case, act):
    """A number made of a fit or of an information, as a function of the shift c."""

    def at(c):
        def moved(m):
            return {**m, "a": m["a"] + c}

        noise = case.noise
        if callable(noise):

            def noise(m):
                return case.noise(moved(m))

        given = {"noise": noise, "free": case.start}

        def predict(m):
            return case.predict(moved(m))

        if act == "fit":
            values = fit(predict, case.model, jnp.asarray(case.data), **given).values
            return values[0] + 0.3 * jnp.sum(values[1:])
        data = {"data": case.data} if act == "observed" else {}
        model = BEST.get(case.predict.__name__ + str(case.start), case.model)
        found = fisher(predict, model, kind=act, **given, **data)
        weights = 1 + jnp.arange(found.matrix.size).reshape(found.matrix.shape)
        return jnp.sum(jnp.cos(weights) * found.matrix)

    return at


BEST: dict = {}


@pytest.mark.parametrize(("name", "act", "transform"), TABLE)
def test_derivatives_are_right(name, act, transform):
    case = CASES[name]
    if act == "observed":  # a curvature is positive near the best fit
        best = fit(
            case.predict, case.model, case.data, noise=case.noise, free=case.start
        )
        BEST[case.predict.__name__ + str(case.start)] = best.model
    at = shifted(case, act)
    c, h = jnp.array(0.05), 1e-4
    if transform == "vmap":
        batch = jnp.array([0.0, 0.05])
        every = jax.jit(jax.vmap(at))(batch)
        np.testing.assert_allclose(every, [at(x) for x in batch], rtol=1e-8)
        return
    if transform == "hessian":
        found = jax.jit(jax.hessian(at))(c)
        slope = jax.jit(jax.grad(at))
        exact = 0.0 if act == "fit" else (slope(c + h) - slope(c - h)) / (2 * h)
    else:
        found = jax.jit(getattr(jax, transform)(at))(c)
        value = jax.jit(at)
        exact = -1.0 if act == "fit" else (value(c + h) - value(c - h)) / (2 * h)
    scale = 1 + np.abs(exact) if act == "fit" else np.abs(at(c)) + np.abs(exact)
    assert abs(found - exact) <= 1e-5 * scale
