"""Error bars and information have exact derivatives, also by a modeled sigma."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.inference import Free, Gaussian, Poisson, fisher, fit
from diffsim.inference._information_factor import information_rows


X = np.linspace(0, 1, 21)
DESIGN = jnp.stack([jnp.ones(21), jnp.asarray(X)], axis=1)
WAVE = 0.1 * np.cos(9 * X)
# A fit ends within 1e-7 error bars of its optimum.
FIT = 1e-6


def line(m):
    return m["a"] + m["b"] * X


def decay(m):
    return m["A"] * jnp.exp(-m["k"] * X)


def constant(m):
    return Gaussian(m["s"])


def growing(m):
    return Gaussian(m["s"] * (1 + X))


def by_signal(m):
    return Gaussian(m["s"] * jnp.sqrt(1 + decay(m)))


NOISES = {"by signal": by_signal, "constant": constant, "growing": growing}
MODEL = {"A": 3.0, "k": 2.0, "s": 0.1}


def quantities(x, noise):
    """Everything that is made of the rows, at A, k and s."""
    found = dict(zip(MODEL, x, strict=True))
    known = fisher(decay, found, noise=noise, free=["A", "k"])
    bias = known.bias(WAVE)
    return in_line(known.stderr, known.covariance, known.logdet, bias, known.matrix)


def closed_form(x, noise):
    """F from derivatives of the mean and of ln sigma, whose sum is differentiated."""

    def numbers(free):
        m = {"A": free[0], "k": free[1], "s": x[2]}
        log_sigma = jnp.log(noise(m).sigma) * jnp.ones(21)
        return decay(m), log_sigma

    mean, change = jax.jacfwd(numbers)(x[:2])
    sigma = jnp.exp(numbers(x[:2])[1])
    rows = mean / sigma[:, None]
    matrix = rows.T @ rows + 2 * change.T @ change
    covariance = jnp.linalg.inv(matrix)
    bias = covariance @ rows.T @ (WAVE / sigma)
    stderr = jnp.sqrt(jnp.diagonal(covariance))
    return in_line(stderr, covariance, jnp.linalg.slogdet(matrix)[1], bias, matrix)


def in_line(*arrays):
    return jnp.concatenate([x.reshape(-1) for x in arrays])


def derivatives(function, at, along):
    """Forward on a line, reverse, and forward over reverse, of one program."""

    def value_and_jacobian(x):
        value, pull = jax.vjp(function, x)
        return value, jax.vmap(pull)(jnp.eye(value.size))[0]

    given, line = (at,), (along,)
    (_, reverse), (forward, second) = jax.jvp(value_and_jacobian, given, line)
    return forward, reverse, second


@pytest.mark.parametrize("name", first_plain(NOISES))
def test_fisher_information_has_the_derivatives_of_the_closed_form(name):
    """By free parameters and by those that stay."""
    at, along = jnp.array(list(MODEL.values())), jnp.array([1.0, -0.5, 0.2])

    @jax.jit
    def both(at):
        noise = NOISES[name]
        functions = lambda x: quantities(x, noise), lambda x: closed_form(x, noise)
        return [derivatives(function, at, along) for function in functions]

    found, exact = both(at)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1] @ along, found[0], rtol=1e-10, atol=1e-10)


def line_fit(data):
    model = {"a": 1.0, "b": 1.0, "s": 0.3}
    return fit(line, model, data, noise=constant)


def line_error_bars(data):
    """σ̂² = RSS/N, with error bars σ̂ √(XᵀX)⁻¹ and σ̂/√2N."""
    residuals = data - DESIGN @ jnp.linalg.solve(DESIGN.T @ DESIGN, DESIGN.T @ data)
    sigma = jnp.sqrt(jnp.mean(residuals**2))
    unit = jnp.sqrt(jnp.diagonal(jnp.linalg.inv(DESIGN.T @ DESIGN)))
    return sigma * jnp.append(unit, 1 / jnp.sqrt(42.0))


def test_derivatives_of_error_bars_by_the_data_are_right():
    away = jnp.asarray(np.sin(5 * X))
    data = jnp.asarray(1 + 2 * X + WAVE) + 0.1 * away

    @jax.jit
    def both(data):
        functions = lambda d: line_fit(d).stderr, line_error_bars
        return [derivatives(function, data, away) for function in functions]

    (forward, reverse, second), exact = both(data)
    np.testing.assert_allclose(forward, exact[0], rtol=FIT, atol=FIT)
    np.testing.assert_allclose(reverse, exact[1], rtol=FIT, atol=FIT)
    np.testing.assert_allclose(reverse @ away, forward, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(second[1] @ away, exact[2][1] @ away, rtol=1e-8)


@pytest.mark.slow
def test_derivative_of_covariance_by_the_data_is_right():
    data = jnp.asarray(3 * np.exp(-2 * X) + WAVE)

    def numbers(a):
        found = fit(decay, MODEL, data + a * X, noise=by_signal)
        return in_line(found.covariance, found.fisher.logdet)

    h = 1e-3
    along = jax.jit(lambda a: jax.jvp(numbers, (a,), (1.0,)))
    ends = [along(n * h)[0] for n in (1.0, -1.0, 2.0, -2.0)]
    slope = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
    np.testing.assert_allclose(along(0.0)[1], slope, rtol=FIT, atol=FIT)


CENTERED = jnp.stack([jnp.ones(21), jnp.asarray(X) - 0.5], axis=1)


def information(s, kind):
    """Of a straight line about the mean of X, whose scaled eigenvalues are equal."""

    def centered(m):
        return m["a"] + m["b"] * (X - 0.5)

    model = {"a": 1.0, "b": 2.0}
    return fisher(centered, model, data=centered(model), noise=Gaussian(s), kind=kind)


ZERO, ONE = np.zeros((2, 2)), np.eye(2)
#: A, B, C and D of A + B s + C/s + D/s²: eigenvalues that are equal, one that is zero,
#: two that are, and none of these.
PRIORS = {
    "equal": (ZERO, ZERO, ZERO, ONE),
    "of one": (ZERO, ZERO, ZERO, np.diag([1.0, 0.0])),
    "of a sum": (ZERO, ZERO, np.ones((2, 2)), ZERO),
    "of both": (np.array([[2.0, 0.5], [0.5, 1.0]]), np.diag([0.0, 1.0]), ZERO, ZERO),
    "none": (ZERO, ZERO, ZERO, ZERO),
}


@pytest.mark.parametrize("kind", first_plain(["expected", "observed"]))
def test_derivatives_of_error_bars_by_a_prior_matrix_are_right(kind):
    def stderr(s, prior):
        return (information(s, kind) + prior).stderr

    def closed(s, prior):
        matrix = CENTERED.T @ CENTERED / s**2 + prior
        return jnp.sqrt(jnp.diagonal(jnp.linalg.inv(matrix)))

    @jax.jit
    def both(terms):
        def by(of):
            a, b, c, d = terms
            return lambda s: of(s, a + b * s + c / s + d / s**2)

        return [derivatives(by(of), 0.3, 1.0) for of in (stderr, closed)]

    for prior, terms in PRIORS.items():
        for one, other in zip(*both(terms), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=prior)


def test_rows_of_a_singular_matrix_have_its_derivatives_where_its_range_turns():
    """WᵀW is the matrix, of two rows for three parameters, to second order."""

    def matrix(s):
        rows = jnp.stack([jnp.stack([1.0, s, 0.0]), jnp.stack([0.5, 1.0, s**2])])
        return in_line(rows.T @ rows)

    def again(s):
        rows = information_rows(matrix(s).reshape(3, 3))
        return in_line(rows.T @ rows)

    both = jax.jit(lambda s: [derivatives(of, s, 1.0) for of in (again, matrix)])
    for one, other in zip(*both(0.3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def stderr_of_counts(data, **how):
    """Error bars of a line through counts."""

    def line(model):
        return model["a"] + model["b"] * jnp.array([1.0, 2.0, 3.0])

    start, noise = {"a": 1.5, "b": 1.5}, Poisson()
    return fit(line, start, data, noise=noise, free=how or None).stderr


@pytest.mark.parametrize("counts", [[3.0, 5.0, 7.0], [3.0, 6.0, 6.0]])
def test_error_bars_of_exact_fits_have_derivatives(counts):
    """Beside differences: data without noise are those of a forecast."""
    data = jnp.array(counts)
    forward, reverse = (f(stderr_of_counts)(data) for f in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-12)
    for i, step in enumerate(1e-3 * jnp.eye(3)):
        ends = stderr_of_counts(data + step), stderr_of_counts(data - step)
        slope = (ends[0] - ends[1]) / 2e-3
        np.testing.assert_allclose(forward[:, i], slope, atol=5e-5)


def test_error_bars_beside_a_bound_have_derivatives_in_both_modes():
    data, free = jnp.array([5.0, 3.0, 2.0]), Free(bounds=(0.0, None))

    def other(data):
        return stderr_of_counts(data, a=Free(), b=free)[0]

    gradient = jax.grad(other)(data)
    np.testing.assert_allclose(gradient, jax.jacfwd(other)(data), rtol=1e-9)
    # Of a constant, √(Σ counts)/3.
    np.testing.assert_allclose(gradient, 1 / (6 * np.sqrt(10.0)), rtol=1e-5)
