"""Likelihoods with closed-form predictions: one table for the tests of all."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from diffsim.inference import (
    BandedCovariance,
    Binomial,
    Categorical,
    Gaussian,
    LogNormal,
    Poisson,
    StudentT,
    ToeplitzCovariance,
)


X = np.linspace(0.0, 1.0, 12)
RNG = np.random.default_rng(8)
NOISE = RNG.normal(size=12)


def line(model):
    return model["a"] + model["b"] * X


def positive(model):
    return jnp.exp(model["a"] - model["b"] * X)


def chance(model):
    return jax.nn.sigmoid(model["a"] - 2 * model["b"] * X)


def logits(model):
    return jnp.stack([0 * X, model["a"] - X, model["b"] * X], axis=-1)


TRUTH = {"a": 1.5, "b": 0.8, "s": 0.3}
MEAN = TRUTH["a"] + TRUTH["b"] * X
POSITIVE = np.exp(TRUTH["a"] - TRUTH["b"] * X)
CHANCE = 1 / (1 + np.exp(-TRUTH["a"] + 2 * TRUTH["b"] * X))
SIGMA = 0.2 + 0.1 * X
DATA = MEAN + SIGMA * NOISE
COLUMN = 0.09 * np.exp(-np.arange(12) / 2) + 0.01 * (np.arange(12) == 0)
TOEPLITZ = scipy.linalg.toeplitz(COLUMN)
BANDS = np.stack([0.09 + 0.01 * X, 0.03 + 0.01 * X, np.full(12, 0.01)])
BANDED = sum(
    np.diag(band[k:], -k) + (np.diag(band[k:], k) if k else 0)
    for k, band in enumerate(BANDS)
)
COUNTS = RNG.poisson(POSITIVE * 4) / 4.0
LABELS = np.array([0, 1, 2, 1, 1, 0, 2, 1, 0, 0, 2, 2])


def rbf(model):
    """A covariance whose numbers are parameters."""
    apart = X[:, None] - X[None, :]
    return model["s"] ** 2 * jnp.exp(-(apart**2) / 0.02) + 0.01 * jnp.eye(12)


class Laplace:
    """A user's likelihood, smooth at 0, whose information is not known."""

    def log_prob(self, prediction, data):
        away = jnp.sqrt((prediction - data) ** 2 + 0.01)
        return -jnp.sum(away / 0.2)


@dataclasses.dataclass
class Case:
    """Noise (a likelihood or a function), prediction, data and what SciPy says."""

    noise: Any
    predict: Callable
    data: np.ndarray
    log_prob: Callable  # of the model, with NumPy numbers
    start: tuple[str, ...] = ("a", "b")

    @property
    def model(self):
        return {name: jnp.array(TRUTH[name]) for name in self.start}

    def likelihood(self, model):
        return self.noise(model) if callable(self.noise) else self.noise


def normal(covariance):
    def log_prob(m):
        mean = m["a"] + m["b"] * X
        matrix = covariance(m) if callable(covariance) else covariance
        return scipy.stats.multivariate_normal.logpdf(DATA, mean, np.asarray(matrix))

    return log_prob


WITH_S = ("a", "b", "s")
CASES = {
    "gaussian": Case(Gaussian(SIGMA), line, DATA, normal(np.diag(SIGMA**2))),
    "gaussian_sigma": Case(
        lambda m: Gaussian(m["s"] * (1 + X)),
        line,
        DATA,
        normal(lambda m: np.diag(m["s"] * (1 + X)) ** 2),
        WITH_S,
    ),
    "gaussian_jitter": Case(
        lambda m: Gaussian(SIGMA, jitter=m["s"]),
        line,
        DATA,
        normal(lambda m: np.diag(SIGMA**2 + m["s"] ** 2)),
        WITH_S,
    ),
    "gaussian_offset": Case(
        lambda m: Gaussian(SIGMA, offset=m["s"] * (X > 0.5)),
        line,
        DATA,
        lambda m: np.sum(
            scipy.stats.norm.logpdf(
                DATA, m["a"] + m["b"] * X + m["s"] * (X > 0.5), SIGMA
            )
        ),
        WITH_S,
    ),
    "dense": Case(Gaussian(covariance=TOEPLITZ), line, DATA, normal(TOEPLITZ)),
    "cholesky": Case(
        Gaussian(cholesky=np.linalg.cholesky(BANDED)), line, DATA, normal(BANDED)
    ),
    "toeplitz": Case(
        Gaussian(covariance=ToeplitzCovariance(COLUMN)), line, DATA, normal(TOEPLITZ)
    ),
    "banded": Case(
        Gaussian(covariance=BandedCovariance(BANDS)), line, DATA, normal(BANDED)
    ),
    "dense_varies": Case(
        lambda m: Gaussian(covariance=rbf(m)), line, DATA, normal(rbf), WITH_S
    ),
    "toeplitz_varies": Case(
        lambda m: Gaussian(covariance=ToeplitzCovariance(rbf(m)[0])),
        line,
        DATA,
        normal(rbf),
        WITH_S,
    ),
    "banded_varies": Case(
        lambda m: Gaussian(covariance=BandedCovariance(m["s"] * BANDS)),
        line,
        DATA,
        normal(lambda m: m["s"] * BANDED),
        WITH_S,
    ),
    "student_t": Case(
        StudentT(SIGMA, dof=4.0),
        line,
        DATA,
        lambda m: np.sum(scipy.stats.t.logpdf(DATA, 4, m["a"] + m["b"] * X, SIGMA)),
    ),
    "student_t_varies": Case(
        lambda m: StudentT(m["s"], dof=3 + m["b"]),
        line,
        DATA,
        lambda m: np.sum(
            scipy.stats.t.logpdf(DATA, 3 + m["b"], m["a"] + m["b"] * X, m["s"])
        ),
        WITH_S,
    ),
    "poisson": Case(
        Poisson(),
        lambda m: 4 * positive(m),
        4 * COUNTS,
        lambda m: np.sum(
            scipy.stats.poisson.logpmf(4 * COUNTS, 4 * np.exp(m["a"] - m["b"] * X))
        ),
    ),
    "binomial": Case(
        Binomial(20),
        chance,
        RNG.binomial(20, CHANCE).astype(float),
        lambda m: np.sum(
            scipy.stats.binom.logpmf(
                CASES["binomial"].data,
                20,
                1 / (1 + np.exp(-m["a"] + 2 * m["b"] * X)),
            )
        ),
    ),
    "log_normal": Case(
        LogNormal(SIGMA),
        positive,
        POSITIVE * np.exp(SIGMA * NOISE),
        lambda m: np.sum(
            scipy.stats.lognorm.logpdf(
                POSITIVE * np.exp(SIGMA * NOISE),
                SIGMA,
                scale=np.exp(m["a"] - m["b"] * X),
            )
        ),
    ),
    "log_normal_sigma": Case(
        lambda m: LogNormal(m["s"]),
        positive,
        POSITIVE * np.exp(0.3 * NOISE),
        lambda m: np.sum(
            scipy.stats.lognorm.logpdf(
                POSITIVE * np.exp(0.3 * NOISE),
                m["s"],
                scale=np.exp(m["a"] - m["b"] * X),
            )
        ),
        WITH_S,
    ),
    "categorical": Case(
        Categorical(logits=True),
        logits,
        LABELS,
        lambda m: np.sum(
            scipy.special.log_softmax(np.asarray(logits(m)), axis=1)[
                np.arange(12), LABELS
            ]
        ),
    ),
    "custom": Case(
        Laplace(),
        line,
        DATA,
        lambda m: float(Laplace().log_prob(m["a"] + m["b"] * X, DATA)),
    ),
}
