"""Four small fits whose likelihoods are visibly no parabolas.

Each is a dictionary: what the JSON says of the problem, and under `residuals` a
function whose sum of squares is χ², or minus twice the log-likelihood up to a constant.
"""

import numpy as np
from _record import digits
from scipy.integrate import solve_ivp


def exponential() -> dict:
    """Decay onto a constant, so noisy that the upper errors exceed the lower ones."""
    truth = np.array([5.0, 0.8, 1.0])
    t = digits(np.linspace(0.0, 5.5, 12))
    rng = np.random.default_rng(20)
    sigma = 0.7

    def predict(theta):
        amplitude, rate, offset = theta
        return amplitude * np.exp(-rate * t) + offset

    y = digits(predict(truth) + sigma * rng.standard_normal(t.size))
    return {
        "formula": "y = A exp(-k t) + c",
        "parameters": ["A", "k", "c"],
        "objective": "chi2 = sum(((y - prediction) / sigma)^2)",
        "errordef": 1.0,
        "start": truth,
        "data": {"t": t, "y": y, "sigma": sigma},
        "residuals": lambda theta: (predict(theta) - y) / sigma,
        "contour": ("A", "k"),
    }


def banana() -> dict:
    """Rosenbrock's valley as two measurements; the minimum (1, 1) has χ² = 0."""
    y, sigma = np.array([0.0, 1.0]), np.array([0.5, 1.0])

    def residuals(theta):
        a, b = theta
        return (np.array([b - a**2, a]) - y) / sigma

    return {
        "formula": "y = (b - a^2, a)",
        "parameters": ["a", "b"],
        "objective": "chi2 = sum(((y - prediction) / sigma)^2)",
        "errordef": 1.0,
        "start": [0.8, 0.9],
        "data": {"y": y, "sigma": sigma},
        "residuals": residuals,
        "contour": ("a", "b"),
    }


def lotka_volterra() -> dict:
    """Four rates of predator and prey from ten noisy counts of each."""
    truth = np.array([1.0, 0.1, 1.5, 0.075])
    t, initial, sigma = np.arange(1.0, 11.0), np.array([10.0, 5.0]), 1.5
    rng = np.random.default_rng(7)

    def predict(theta):
        alpha, beta, gamma, delta = theta

        def rates(_, state):
            x, y = state
            return [x * (alpha - beta * y), y * (delta * x - gamma)]

        solution = solve_ivp(
            rates, (0.0, t[-1]), initial, "DOP853", t, rtol=1e-11, atol=1e-12
        )
        return solution.y

    counts = digits(predict(truth) + sigma * rng.standard_normal((2, t.size)))
    return {
        "formula": "x' = alpha x - beta x y, y' = delta x y - gamma y, at times t",
        "parameters": ["alpha", "beta", "gamma", "delta"],
        "objective": "chi2 = sum(((counts - prediction) / sigma)^2)",
        "errordef": 1.0,
        "start": truth,
        "data": {"t": t, "counts": counts, "sigma": sigma, "initial": initial},
        "residuals": lambda theta: np.ravel((predict(theta) - counts) / sigma),
        "integrator": "scipy solve_ivp DOP853, rtol 1e-11, atol 1e-12",
    }


def poisson_peak() -> dict:
    """A Gaussian peak on a constant background, counted in 30 bins."""
    truth = np.array([40.0, 5.2, 0.7, 3.0])
    edges = digits(np.linspace(0.0, 10.0, 31), 8)
    centers, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)

    def predict(theta):
        signal, mean, spread, background = theta
        peak = np.exp(-(((centers - mean) / spread) ** 2) / 2)
        density = signal * peak / (spread * np.sqrt(2 * np.pi)) + background
        return width * density

    counts = np.random.default_rng(3).poisson(predict(truth))

    def residuals(theta):
        expected = predict(theta)
        ratio = np.where(counts > 0, counts, 1) / expected
        logs = np.where(counts > 0, counts * np.log(ratio), 0.0)
        deviance = 2 * (expected - counts + logs)
        return np.sign(expected - counts) * np.sqrt(np.maximum(deviance, 0.0))

    return {
        "formula": "expected = width (S N(center; m, s) + B), N the normal density",
        "parameters": ["S", "m", "s", "B"],
        "objective": "nll = sum(expected - n + n log(n / expected)), half the deviance;"
        " n log n is 0 for n = 0",
        "errordef": 0.5,
        "start": truth,
        "data": {"edges": edges, "counts": counts},
        "residuals": residuals,
    }


PROBLEMS = {
    "exponential": exponential,
    "banana": banana,
    "lotka_volterra": lotka_volterra,
    "poisson_peak": poisson_peak,
}
