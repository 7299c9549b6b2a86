"""Information of every kind: by formula, observed, sampled; its algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihood_cases import CASES, Laplace, X, line

import diffsim as ds
from diffsim.inference import Fisher, Gaussian, Prior, fisher


MODEL = {"a": 1.5, "b": 0.8, "s": 0.3}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian_sigma", "dense_varies", "gaussian_jitter"])
def test_curvature_at_data_without_noise_is_no_information(name):
    """−Hessian there has the wrong sign in the noise; the expected one is positive."""
    case = CASES[name]
    given = {"noise": case.noise, "free": case.start}
    expected = fisher(case.predict, case.model, **given)
    clean = case.predict(case.model)
    with pytest.raises(ValueError, match="not positive definite"):
        fisher(case.predict, case.model, kind="observed", data=clean, **given)
    sampled = fisher(case.predict, case.model, kind="sampled", samples=20_000, **given)
    ratio = np.asarray(sampled.stderr / expected.stderr) - 1
    assert np.all(np.abs(ratio) < 4 * np.asarray(sampled.sampling_error))
    assert np.all(np.asarray(sampled.sampling_error) < 0.03)


def test_likelihood_that_can_draw_has_a_sampled_information():
    """Laplace noise of scale b has the information 1/b² of a datum."""

    class Drawn:
        def log_prob(self, prediction, data):
            return -jnp.abs(prediction - data) / 0.2

        def sample(self, key, prediction):
            return prediction + 0.2 * jax.random.laplace(key, prediction.shape)

    model = {"a": 1.5, "b": 0.8}
    found = fisher(line, model, noise=Drawn(), samples=20_000)
    exact = fisher(line, model, noise=Gaussian(0.2))
    assert found.kind == "sampled"
    ratio = np.asarray(found.stderr / exact.stderr) - 1
    assert np.all(np.abs(ratio) < 4 * np.asarray(found.sampling_error))
    with pytest.raises(ValueError, match=r"needs information\(.*or sample"):
        fisher(line, model, noise=Laplace())


@pytest.mark.slow
def test_sampled_information_has_its_priors():
    model = {"a": 1.5, "b": 0.8}
    prior = {"free": {"a": ds.Free(), "b": ds.Free(prior=(0.8, 1e-3))}}
    found = fisher(line, model, noise=Gaussian(1.0), kind="sampled", **prior)
    assert found.stderr[1] == pytest.approx(1e-3, rel=1e-3)


@pytest.fixture(scope="module")
def straight():
    return fisher(line, {"a": 1.5, "b": 0.8}, noise=Gaussian(0.2))


def test_other_parameters_have_the_information_of_the_chain_rule(straight):
    """JᵀFJ for a and b as functions of height and angle, and back again."""

    def old(new):
        return {"a": new["height"], "b": jnp.tan(new["angle"])}

    angle = float(np.arctan(0.8))
    found = straight.reparametrize(old, {"angle": angle, "height": 1.5})
    jacobian = np.array([[0, 1], [1 / np.cos(angle) ** 2, 0]])
    exact = jacobian.T @ np.asarray(straight.matrix) @ jacobian
    assert found.names == ("angle", "height")
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-12)

    def back(values):
        return {"angle": jnp.arctan(values["b"]), "height": values["a"]}

    again = found.reparametrize(back, {"a": 1.5, "b": 0.8})
    np.testing.assert_allclose(again.matrix, straight.matrix, rtol=1e-12)


def test_union_adds_what_both_have(straight):
    other = Fisher.from_matrix([[4.0, 1.0], [1.0, 9.0]], ["b", "c"], values=[0.8, 3.0])
    found = straight | other
    exact = np.zeros((3, 3))
    exact[:2, :2] = straight.matrix
    exact[1:, 1:] += [[4.0, 1.0], [1.0, 9.0]]
    assert found.names == ("a", "b", "c")
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-13)
    np.testing.assert_allclose(found.values, [1.5, 0.8, 3.0])
    np.testing.assert_allclose(sum([straight, straight]).matrix, 2 * straight.matrix)


def test_ellipse_is_that_of_the_covariance(straight):
    """Every point has the Mahalanobis distance of its probability."""
    points = np.asarray(straight.ellipse("a", "b", 0.95, points=17))
    away = points - [1.5, 0.8]
    distance = np.einsum("ia,ab,ib->i", away, np.asarray(straight.matrix), away)
    np.testing.assert_allclose(distance, -2 * np.log(0.05), rtol=1e-12)


def test_degeneracy_is_said_in_words():
    found = fisher(lambda m: (m["a"] + m["b"]) * X, {"a": 1.0, "b": 2.0}, noise=GOOD)
    (direction,) = found.degeneracies()
    assert direction.words == "the data do not see a rising while b fall"


GOOD = Gaussian(0.1)


def test_dali_of_a_quadratic_prediction_is_its_likelihood():
    """Exact for any step: −½χ² of the difference of two predictions."""

    def predict(m):
        return m["a"] * X + m["b"] ** 2 * (1 - X)

    bent = fisher(predict, {"a": 1.0, "b": 2.0}, noise=GOOD).dali()
    for step in ([0.3, -0.5], [-1.0, 2.0]):
        away = predict({"a": 1.0 + step[0], "b": 2.0 + step[1]}) - predict(
            {"a": 1.0, "b": 2.0}
        )
        exact = -0.5 * np.sum((np.asarray(away) / 0.1) ** 2)
        found = bent.log_prob(bent.values + jnp.array(step))
        np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_prior_on_a_function_adds_its_information(straight):
    """(∇f)(∇f)ᵀ/s² of a Gaussian prior on f."""
    ratio = Prior(lambda m: m["a"] / m["b"], (2.0, 0.05))
    model = {"a": 1.5, "b": 0.8}
    found = fisher(line, model, noise=Gaussian(0.2), priors=[ratio])
    slope = np.array([1 / 0.8, -1.5 / 0.8**2]) / 0.05
    exact = np.asarray(straight.matrix) + np.outer(slope, slope)
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-12)
