"""One experiment for all tests of a fit, so that each solver compiles it once."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.inference import Gaussian, fit


TIMES = np.linspace(0, 10, 101)
TRUTH = {"A": 1.0, "gamma": 0.1, "omega": 2.0, "phi": 0.3}
ORDER = ("A", "gamma", "omega", "phi")
SIGMA = 0.05


def damped_oscillator(model):
    """A e^{−γt} cos(ωt + φ), with closed-form Fisher numbers in the literature."""
    decay = model["A"] * jnp.exp(-model["gamma"] * TIMES)
    return decay * jnp.cos(model["omega"] * TIMES + model["phi"])


class Oscillator:
    predict = staticmethod(damped_oscillator)
    truth, order, sigma, times = TRUTH, ORDER, SIGMA, TIMES

    def __init__(self):
        rng = np.random.default_rng(0)
        exact = np.asarray(damped_oscillator(TRUTH))
        self.data = exact + SIGMA * rng.normal(size=TIMES.size)
        self.start = {
            k: jnp.array(f * TRUTH[k])
            for k, f in zip(ORDER, (0.8, 1.5, 1.05, 0.7), strict=True)
        }

    def fitted(self, data):
        noise = Gaussian(self.sigma)
        return fit(self.predict, self.start, data, noise=noise, free=self.order)


@pytest.fixture(scope="session")
def oscillator():
    return Oscillator()


@pytest.fixture(scope="session")
def best(oscillator):
    return oscillator.fitted(oscillator.data)
