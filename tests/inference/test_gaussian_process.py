"""Gaussian processes by tinygp: dense and in line, hyperparameters, long series."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from rows import first_plain

import diffsim as ds
from diffsim.inference import Gaussian, GaussianProcess, fisher


tinygp = pytest.importorskip("tinygp")
RNG = np.random.default_rng(5)
T = np.sort(RNG.uniform(0, 40, 30))
APART = np.abs(T[:, None] - T[None, :])


def velocity(m):
    return m["K"] * jnp.sin(2 * np.pi * T / 4.2)


def spots(m):
    kernel = tinygp.kernels.quasisep.Exp(scale=m["scale"], sigma=m["size"])
    return Gaussian(covariance=GaussianProcess(kernel, T, sigma=0.5))


def dense(m):
    matrix = m["size"] ** 2 * jnp.exp(-APART / m["scale"]) + 0.25 * jnp.eye(30)
    return Gaussian(covariance=matrix)


MODEL = {"K": 3.0, "scale": 5.0, "size": 2.0}
ROOT = np.linalg.cholesky(4 * np.exp(-APART / 5) + 0.25 * np.eye(30))
DATA = np.asarray(velocity(MODEL)) + ROOT @ RNG.normal(size=30)


def test_process_in_line_is_the_dense_one():
    """Likelihood and information of hyperparameters."""
    exact = scipy.stats.multivariate_normal.logpdf(
        DATA, np.asarray(velocity(MODEL)), ROOT @ ROOT.T
    )
    found = jax.jit(lambda m: spots(m).log_prob(velocity(m), DATA))(MODEL)
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    one, other = (fisher(velocity, MODEL, noise=noise) for noise in (spots, dense))
    np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-10)


@pytest.mark.slow
def test_fit_of_a_process_in_line_is_that_of_the_dense_one():
    fits = [ds.fit(velocity, MODEL, DATA, noise=noise) for noise in (spots, dense)]
    np.testing.assert_allclose(fits[0].values, fits[1].values, rtol=1e-5)
    np.testing.assert_allclose(fits[0].stderr, fits[1].stderr, rtol=1e-4)


@pytest.mark.parametrize("derivative", first_plain([jax.grad, jax.hessian]))
def test_derivatives_by_hyperparameters_are_those_of_the_dense_process(derivative):
    def loss(values, noise):
        model = dict(zip(MODEL, values, strict=True))
        return noise(model).log_prob(velocity(model), DATA)

    at = jnp.array(list(MODEL.values()))
    of = jax.jit(derivative(loss), static_argnums=1)
    np.testing.assert_allclose(of(at, spots), of(at, dense), rtol=1e-9)


def test_quasiperiodic_kernel_is_dense():
    kernels = tinygp.kernels
    kernel = 4.0 * kernels.ExpSquared(20.0) * kernels.ExpSineSquared(10.0, gamma=2.0)
    process = GaussianProcess(kernel, T, sigma=0.5)
    shape = np.exp(-(APART**2) / 800 - 2 * np.sin(np.pi * APART / 10) ** 2)
    exact = fisher(
        velocity, {"K": 3.0}, noise=Gaussian(covariance=4 * shape + 0.25 * np.eye(30))
    )
    found = fisher(velocity, {"K": 3.0}, noise=Gaussian(covariance=process))
    np.testing.assert_allclose(found.matrix, exact.matrix, rtol=1e-10)


@pytest.mark.slow
def test_long_series_takes_memory_in_proportion():
    """N = 10⁵: no array of N² numbers, and as many bytes a datum as for 10³."""

    def peak(n):
        t = jnp.linspace(0.0, 1e-3 * n, n)

        def loss(x):
            kernel = tinygp.kernels.quasisep.SHO(x[0], 3.0, x[1])
            process = GaussianProcess(kernel, t, sigma=0.5)
            return Gaussian(covariance=process).log_prob(jnp.sin(t), jnp.zeros(n))

        compiled = jax.jit(jax.grad(loss)).lower(jnp.array([1.0, 2.0])).compile()
        assert np.isfinite(compiled(jnp.array([1.0, 2.0]))).all()
        return compiled.memory_analysis().temp_size_in_bytes / n

    assert peak(100_000) < 1.2 * peak(1000) < 10_000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda k: GaussianProcess("SHO", T), "kernel must be one of tinygp"),
        (lambda k: GaussianProcess(k, T[::-1]), "x must increase"),
        (lambda k: GaussianProcess(k, T, sigma=-1.0), "sigma must be positive"),
        (lambda k: GaussianProcess(k, np.zeros((2, 2, 2))), "x must have shape"),
        (lambda k: GaussianProcess(k, T[:5]).factor(None, 30, float), "for each datum"),
    ],
)
def test_invalid_processes_raise_value_error(make, words):
    with pytest.raises(ValueError, match=words):
        make(tinygp.kernels.quasisep.Exp(scale=1.0))
