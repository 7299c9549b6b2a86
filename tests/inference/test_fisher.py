"""Fisher matrices against closed forms, dense formulas and themselves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._results import RESULTS
from diffsim.inference import Fisher, Free, Gaussian, fisher, fit


RNG = np.random.default_rng(1)
DESIGN = RNG.normal(size=(30, 4)) * [1.0, 1e-6, 1e4, 1.0]
NAMES = ("x[0]", "x[1]", "x[2]", "x[3]")


def linear(model):
    return DESIGN @ model["x"]


@pytest.fixture(scope="module")
def line():
    return fisher(linear, {"x": jnp.ones(4)}, noise=Gaussian(0.5))


@pytest.mark.gpu
def test_damped_oscillator_has_the_published_error_bars(oscillator):
    found = fisher(
        oscillator.predict,
        oscillator.truth,
        noise=Gaussian(oscillator.sigma),
        free=oscillator.order,
    )
    assert found.names == oscillator.order
    # references.md, printed to 8 decimals and 6 digits
    published = [0.01802473, 0.00412565, 0.00404554, 0.01730784]
    np.testing.assert_allclose(found.stderr, published, atol=5e-9)
    assert abs(found.correlation[2, 3] + 0.789654) < 5e-7


def test_linear_model_has_the_dense_information_and_covariance(line):
    dense = DESIGN.T @ DESIGN / 0.25
    np.testing.assert_allclose(line.matrix, dense, rtol=1e-10, atol=1e-10)
    scaled = DESIGN / np.linalg.norm(DESIGN, axis=0)
    inverse = np.linalg.inv(scaled.T @ scaled) * 0.25
    inverse /= np.outer(*[np.linalg.norm(DESIGN, axis=0)] * 2)
    np.testing.assert_allclose(line.covariance, inverse, rtol=1e-10)
    sign, logdet = np.linalg.slogdet(dense)
    assert sign == 1 and abs(line.logdet - logdet) < 1e-10 * abs(logdet)
    vector = RNG.normal(size=4)
    np.testing.assert_allclose(line.mv(jnp.array(vector)), dense @ vector, rtol=1e-10)


def test_normal_distribution_has_the_textbook_information():
    """N(µ, σ²): N/σ² for µ, 2N/σ² for σ, nothing between them."""
    model = {"mu": 3.0, "sigma": 0.7}
    found = fisher(
        lambda m: jnp.full(40, m["mu"]), model, noise=lambda m: Gaussian(m["sigma"])
    )
    expected = np.diag([40 / 0.49, 80 / 0.49])
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-10, atol=1e-10)


def test_signal_dependent_noise_adds_information_through_sigma():
    """µ_i and σ_i = f µ_i, in closed form: Σ (µ'² + 2 σ'²)/σ²."""
    times = np.linspace(1, 3, 20)
    found = fisher(
        lambda m: m["a"] * times,
        {"a": 2.0, "f": 0.1},
        noise=lambda m: Gaussian(m["f"] * m["a"] * times),
    )
    a, f, n = 2.0, 0.1, times.size
    dense = n * np.array(
        [[1 / (f * a) ** 2 + 2 / a**2, 2 / (a * f)], [2 / (a * f), 2 / f**2]]
    )
    np.testing.assert_allclose(found.matrix, dense, rtol=1e-10)


def test_amplitude_is_known_to_one_over_the_signal_to_noise():
    template = np.sin(np.linspace(0, 6, 50))
    found = fisher(lambda m: m["A"] * template, {"A": 3.0}, noise=Gaussian(0.2))
    snr2 = np.sum((3.0 * template / 0.2) ** 2)
    np.testing.assert_allclose(found.matrix, [[snr2 / 9.0]], rtol=1e-10)


def test_reparametrization_transforms_information_by_the_jacobian(line):
    """θ = (p + q, p − q, r², s): F' = JᵀFJ."""

    def predict(m):
        p, q, r, s = (m[k] for k in "pqrs")
        return DESIGN @ jnp.stack([p + q, p - q, r**2, s])

    model = {"p": 1.0, "q": 0.0, "r": 1.0, "s": 1.0}
    found = fisher(predict, model, noise=Gaussian(0.5), free=list("pqrs"))
    J = np.array([[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1.0]])
    dense = J.T @ np.asarray(line.matrix) @ J
    np.testing.assert_allclose(found.matrix, dense, rtol=1e-10, atol=1e-10)


def test_sigma_and_mask_may_differ_by_datum():
    sigma = RNG.uniform(0.5, 2, size=30)
    mask = RNG.uniform(size=30) > 0.3
    model = {"x": jnp.ones(4)}
    found = fisher(linear, model, noise=Gaussian(sigma, mask=mask))
    rows = (DESIGN / sigma[:, None])[mask]
    np.testing.assert_allclose(found.matrix, rows.T @ rows, rtol=1e-10, atol=1e-10)


def test_priors_add_their_inverse_variance(line):
    free = {"x[0]": Free(prior=(0.0, 0.01)), "x[1:]": Free()}
    found = fisher(linear, {"x": jnp.ones(4)}, noise=Gaussian(0.5), free=free)
    extra = np.array(found.matrix - line.matrix)
    assert abs(extra[0, 0] - 1e4) < 1e-6
    extra[0, 0] = 0
    np.testing.assert_allclose(extra, 0, atol=1e-5)  # rounding of entries of 1e9


def test_fix_and_marginalize_match_the_dense_formulas(line):
    dense = np.asarray(line.matrix)
    keep, drop = [0, 2], [1, 3]
    fixed = line.fix(["x[1]", "x[3]"])
    assert fixed.names == ("x[0]", "x[2]")
    np.testing.assert_allclose(fixed.matrix, dense[np.ix_(keep, keep)], rtol=1e-10)
    inner = np.linalg.solve(dense[np.ix_(drop, drop)], dense[np.ix_(drop, keep)])
    schur = dense[np.ix_(keep, keep)] - dense[np.ix_(keep, drop)] @ inner
    left = line.marginalize(["x[1]", "x[3]"])
    np.testing.assert_allclose(left.matrix, schur, rtol=1e-9)
    covariance = np.asarray(line.covariance)[np.ix_(keep, keep)]
    np.testing.assert_allclose(left.covariance, covariance, rtol=1e-10)
    assert line.fix("x[0]").marginalize("x[1]").names == ("x[2]", "x[3]")


def test_information_of_independent_experiments_adds(line):
    other = fisher(linear, {"x": jnp.ones(4)}, noise=Gaussian(2.0))
    both = line + other
    np.testing.assert_allclose(both.matrix, line.matrix + other.matrix, rtol=1e-10)
    assert both.names == NAMES


def test_bias_of_a_linear_model_is_the_least_squares_solution(line):
    delta = RNG.normal(size=30)
    units = np.linalg.norm(DESIGN, axis=0)
    wanted = np.linalg.lstsq(DESIGN / units, delta, rcond=None)[0] / units
    np.testing.assert_allclose(line.bias(jnp.array(delta)), wanted, rtol=1e-9)


def test_undetermined_parameters_have_infinite_error_bars_and_are_listed():
    times = np.linspace(0, 1, 20)
    found = fisher(
        lambda m: m["a"] * m["b"] * times + m["c"] + 0 * m["unused"],
        {"a": 1.0, "b": 2.0, "c": 3.0, "unused": 4.0},
        noise=Gaussian(1.0),
    )
    np.testing.assert_array_equal(np.isinf(found.stderr), [1, 1, 0, 1])
    # c keeps the error bar it has if the product a·b is the parameter
    rows = np.stack([times, np.ones(20)], axis=1)
    sd = np.sqrt(np.linalg.inv(rows.T @ rows)[1, 1])
    assert abs(found.stderr[2] - sd) < 1e-10
    loose = found.degeneracies()
    assert [d.inflation for d in loose] == [np.inf, np.inf]
    named = {frozenset(d.names) for d in loose}
    assert named == {frozenset({"a", "b"}), frozenset({"unused"})}
    assert "undetermined: +0.71 a -0.71 b" in str(found)
    assert np.isinf(found.condition)
    left = found.marginalize(["a", "unused"])
    np.testing.assert_array_equal(np.isinf(left.stderr), [1, 0])


def test_observed_information_is_the_hessian_of_the_loss(oscillator, best):
    given = {"noise": Gaussian(oscillator.sigma), "free": oscillator.order}
    found = fisher(
        oscillator.predict, best.model, kind="observed", data=oscillator.data, **given
    )

    def minus_log_likelihood(x):
        model = dict(zip(oscillator.order, x, strict=True))
        rho = (oscillator.predict(model) - oscillator.data) / oscillator.sigma
        return rho @ rho / 2

    x = jnp.array([best.model[k] for k in oscillator.order])
    dense = jax.jit(jax.hessian(minus_log_likelihood))(x)
    np.testing.assert_allclose(found.matrix, dense, rtol=1e-10, atol=1e-6)
    assert "observed information" in repr(found)
    assert "expected information" in repr(best.fisher)


def test_indefinite_observed_information_raises_value_error(oscillator):
    with pytest.raises(ValueError, match="not positive definite at this model"):
        fisher(
            oscillator.predict,
            {**oscillator.truth, "phi": 0.3 + np.pi},
            noise=Gaussian(oscillator.sigma),
            kind="observed",
            data=oscillator.data,
        )


def test_unknown_sigma_is_estimated_from_the_data(oscillator):
    given = {"noise": Gaussian(), "free": oscillator.order}
    best = fit(oscillator.predict, oscillator.start, oscillator.data, **given)
    found = fisher(oscillator.predict, best.model, data=oscillator.data, **given)
    np.testing.assert_allclose(found.stderr, best.stderr, rtol=1e-7)
    with pytest.raises(
        ValueError, match="data must be given: a Gaussian without sigma"
    ):
        fisher(oscillator.predict, best.model, **given)


def test_gradient_of_logdet_by_sigma_is_that_of_the_closed_form(oscillator):
    """d(logdet)/dσ = −2n/σ for n parameters, by jit and grad through `fisher`."""

    @jax.jit
    @jax.grad
    def slope(sigma):
        found = fisher(
            oscillator.predict,
            oscillator.truth,
            noise=Gaussian(sigma),
            free=oscillator.order,
        )
        return found.logdet

    assert abs(slope(0.05) + 2 * 4 / 0.05) < 1e-9


def test_nonfinite_prediction_sets_the_status_and_nan_error_bars():
    found = fisher(
        lambda m: jnp.log(m["a"]) * np.ones(3), {"a": -1.0}, noise=Gaussian(1.0)
    )
    assert found.status == RESULTS.prediction_not_finite
    assert np.isnan(found.stderr[0])
    assert "The prediction is not finite" in str(found)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda f: f.fix("x[9]"), r"'x\[9\]' is no parameter; near are 'x\["),
        (lambda f: f.fix(0), "names must be a path or several.*got 0"),
        (lambda f: f.fix("x"), "fix must leave one parameter at least, got all 4"),
        (lambda f: f.marginalize(NAMES), "marginalize must leave one parameter"),
        (lambda f: f.bias("x"), "delta_prediction must be real numbers.*got 'x'"),
        (lambda f: f + f.fix("x[0]"), r"the same names, and only one has \['x\[0\]'\]"),
        (lambda f: (f + f).bias(jnp.ones(30)), "bias needs the derivative of one"),
        (lambda f: f.bias(jnp.ones(7)), "must hold 30 numbers.*got 7"),
    ],
)
def test_invalid_arguments_raise_value_error(line, act, sentence):
    with pytest.raises(ValueError, match=sentence):
        act(line)


def test_adding_a_number_raises_type_error(line):
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = line + 1


def test_empty_fix_and_marginalize_change_nothing(line):
    for same in (line.fix([]), line.marginalize([])):
        np.testing.assert_allclose(same.matrix, line.matrix, rtol=1e-10)


def test_condition_number_has_the_derivative_of_the_closed_form():
    """Of the triangle of [1, cos φ; 0, sin φ]: cot(φ/2), with slope −½/sin²(φ/2)."""

    def condition(angle):
        rows = jnp.array([[1.0, 0.0], [jnp.cos(angle), jnp.sin(angle)]]).T
        return fisher(lambda x: rows @ x, jnp.ones(2), noise=Gaussian(1.0)).condition

    value, slope = jax.value_and_grad(condition)(1.0)
    assert abs(value - 1 / np.tan(0.5)) < 1e-12
    assert abs(slope + 0.5 / np.sin(0.5) ** 2) < 1e-12


def test_fisher_matrix_is_a_pytree_of_arrays(line):
    leaves = jax.tree.leaves(line)
    assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves)
    rebuilt = jax.tree.unflatten(jax.tree.structure(line), leaves)
    assert isinstance(rebuilt, Fisher) and rebuilt.names == line.names


def test_derivative_of_error_bars_beside_an_undetermined_parameter_is_nan():
    def stderr(scale, *, fixed):
        found = fisher(
            lambda x: scale * jnp.stack([x[0] + x[1], x[0] - x[1]]) ** 2,
            jnp.array([1.0, 2.0, 3.0]),
            noise=Gaussian(1.0),
        )
        return (found.fix("[2]") if fixed else found).stderr

    @jax.jit
    def derivatives(s):
        of = [functools.partial(stderr, fixed=fixed) for fixed in (False, True)]
        return [[mode(f)(s) for mode in (jax.jacfwd, jax.jacrev)] for f in of]

    assert np.all(np.isfinite(stderr(1.0, fixed=False)[:2]))
    assert np.all(np.isnan(derivatives(1.0)[0]))
    exact = -stderr(2.0, fixed=True) / 2
    for found in derivatives(2.0)[1]:
        np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_fisher_information_adds_by_parameter_name():
    def known(sigma, free):
        model, x = {"a": 1.0, "b": 2.0}, jnp.linspace(0, 1, 5)
        noise = Gaussian(sigma)
        return fisher(lambda m: m["a"] + m["b"] * x, model, noise=noise, free=free)

    one, other = known(0.1, ["a", "b"]), known(0.3, ["b", "a"])
    found = one + other
    assert found.names == ("a", "b")
    exact = one.matrix + other.matrix[::-1, ::-1]
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-12)


def test_fisher_information_adds_and_scales_as_its_matrix():
    x, model = jnp.linspace(0, 1, 5), {"a": 1.0, "k": 2.0}
    found = fisher(lambda m: m["a"] + m["k"] * x, model, noise=Gaussian(0.1))
    matrix, prior = np.asarray(found.matrix), np.diag([4.0, 0.0])
    for either, expected in (
        (sum([found, found]), 2 * matrix),
        (3 * found, 3 * matrix),
        (found * np.float64(3), 3 * matrix),
        (found + prior, matrix + prior),
        (prior + found, matrix + prior),
        (jnp.asarray(prior) + found, matrix + prior),
        (0 * found, 0 * matrix),
    ):
        # roots of sums of squares, squared again: some roundings of the largest entry
        np.testing.assert_allclose(either.matrix, expected, rtol=1e-12, atol=1e-10)
