"""NUTS on `log_density`, tuned by itself, beside published posteriors.

Of the lynx and the hares of Hudson Bay by Stan (posteriordb), and of the benchmark
sbibm; each of a diffsim simulation with 10,000 reference draws.
"""

import json
import pathlib

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hudson_bay import PELTS

from diffsim.inference import Binomial, Free, LogNormal, log_density
from diffsim.simulations import AbstractSimulation, Method, simulate


pytestmark = pytest.mark.slow
distributions = pytest.importorskip("numpyro.distributions")

FOLDER = pathlib.Path(__file__).parents[1] / "data_sbibm"
SBIBM = json.loads((FOLDER / "sbibm_posteriors.json").read_text())
REFERENCE_DRAWS = 10_000


class PredatorPrey(AbstractSimulation):
    """Lotka and Volterra: u' = (α − βv) u, v' = (δu − γ) v, as logarithms.

    `rates` are in the order of the reference: α, β, γ, δ.
    """

    rates: jax.Array
    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.log(self.start)

    def terms(self):
        return diffrax.ODETerm(_hunt)

    def default_method(self):
        return Method(diffrax.Tsit5(), step=0.05)


def _hunt(t, y, model):
    alpha, beta, gamma, delta = model.rates
    prey, predators = jnp.exp(y)
    return jnp.stack([alpha - beta * predators, delta * prey - gamma])


class Epidemic(AbstractSimulation):
    """SIR: s' = −β s i, i' = β s i − γ i, as logarithms of shares of the population."""

    contact: jax.Array
    recovery: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.log(jnp.array([1 - 1e-6, 1e-6]))

    def terms(self):
        return diffrax.ODETerm(_infect)

    def default_method(self):
        return Method(diffrax.Tsit5(), step=17 / 16)


def _infect(t, y, model):
    susceptible, infected = jnp.exp(y)
    growth = model.contact * susceptible - model.recovery
    return jnp.stack([-model.contact * infected, growth])


def nuts(density, draws):
    """Draws of the parameters by BlackJAX, with its window adaptation, one chain."""
    blackjax = pytest.importorskip("blackjax")

    @jax.jit
    def chain(key):
        first, second = jax.random.split(key)
        warmup = blackjax.window_adaptation(
            blackjax.nuts, density, is_mass_matrix_diagonal=False
        )
        (state, settings), _ = warmup.run(first, density.start, 500)
        step = blackjax.nuts(density, **settings).step

        def one(state, key):
            state, info = step(key, state)
            return state, (density.values(state.position), info.is_divergent)

        keys = jax.random.split(second, draws)
        return jax.lax.scan(one, state, keys)[1]

    found, divergent = chain(jax.random.key(0))
    assert np.mean(divergent) < 1e-3
    sizes = blackjax.diagnostics.effective_sample_size(found[None])
    return np.asarray(found), np.asarray(sizes)


# Of posteriordb, hudson_lynx_hare-lotka_volterra (Stan, 10 chains): means and standard
# deviations of α, β, γ, δ, of hare and lynx in 1900, and of σ.
HUDSON_MEAN = (0.546864, 0.0277473, 0.800095, 0.0240859)
HUDSON_MEAN += (34.03522, 5.935897, 0.248057, 0.251017)
HUDSON_SD = (0.06305, 0.004155, 0.08937, 0.003528, 2.9168, 0.5305, 0.04326, 0.04359)


def hudson_bay(pelts):
    start = {
        "nature": PredatorPrey(
            jnp.array([0.5, 0.025, 0.8, 0.025]), jnp.array([30.0, 4.0])
        ),
        "sigma": jnp.array([0.5, 0.5]),
    }
    sizes = np.array([1.0, 0.05, 1.0, 0.05])
    free = {
        "nature.rates": Free(bounds=(0, None), prior=(sizes, sizes * [0.5, 1, 0.5, 1])),
        "nature.start": Free(prior=distributions.LogNormal(np.log(10), 1.0)),
        "sigma": Free(prior=distributions.LogNormal(-1.0, 1.0)),
    }

    def predict(model):
        return jnp.exp(simulate(model["nature"], np.arange(21.0)).states)

    def noise(model):
        return LogNormal(model["sigma"] * jnp.ones((21, 1)))

    return log_density(predict, start, pelts, noise=noise, free=free)


def test_nuts_finds_stans_posterior_of_hudson_bay():
    """Means within four standard errors of both samplers, deviations within 6 %."""
    draws, sizes = nuts(hudson_bay(PELTS.T), draws=4000)
    errors = HUDSON_SD * np.sqrt(1 / sizes + 1 / REFERENCE_DRAWS)
    assert np.all(np.abs(draws.mean(axis=0) - HUDSON_MEAN) < 4 * errors)
    np.testing.assert_allclose(draws.std(axis=0), HUDSON_SD, rtol=0.06)


def epidemic(data):
    times = 17.0 * np.arange(10)

    def predict(model):
        return jnp.exp(simulate(model, times).states[:, 1])

    start = Epidemic(jnp.array(0.7), jnp.array(0.12))
    free = {
        "contact": Free(prior=distributions.LogNormal(np.log(0.4), 0.5)),
        "recovery": Free(prior=distributions.LogNormal(np.log(0.125), 0.2)),
    }
    return log_density(predict, start, data, noise=Binomial(1000), free=free)


def lotka_volterra(data):
    times = 2.1 * np.arange(10)

    def predict(model):
        return jnp.exp(simulate(model, times).states).T

    start = PredatorPrey(jnp.array([0.6, 0.08, 1.0, 0.11]), jnp.array([30.0, 1.0]))
    means = np.array([-0.125, -3, -0.125, -3])
    free = {"rates": Free(prior=distributions.LogNormal(means, 0.5))}
    data = np.reshape(data, (2, 10))
    return log_density(predict, start, data, noise=LogNormal(0.1), free=free)


@pytest.mark.parametrize(
    # Of predators and prey one observation, as each takes as long as three epidemics.
    ("task", "number"),
    [("sir", "1"), ("sir", "2"), ("sir", "3"), ("lotka_volterra", "3")],
)
def test_nuts_finds_the_reference_posterior_of_sbibm(task, number):
    """Means within 0.1, deviations within 5 %: four standard errors of 3000 draws."""
    reference = SBIBM[task][number]
    make = {"sir": epidemic, "lotka_volterra": lotka_volterra}[task]
    draws, _ = nuts(make(np.array(reference["observation"])), draws=5000)
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.1 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.05)


def test_nuts_of_numpyro_finds_the_same_posterior():
    """Through `to_numpyro`, whose sites have the names of the parameters."""
    numpyro = pytest.importorskip("numpyro")
    reference = SBIBM["sir"]["1"]
    density = epidemic(np.array(reference["observation"]))
    init = numpyro.infer.init_to_value(values={"unconstrained": density.start})
    kernel = numpyro.infer.NUTS(
        density.to_numpyro(), init_strategy=init, dense_mass=True
    )
    sampler = numpyro.infer.MCMC(
        kernel, num_warmup=500, num_samples=5000, progress_bar=False
    )
    sampler.run(jax.random.key(0))
    found = sampler.get_samples()
    draws = np.stack([found["contact"], found["recovery"]], axis=1)
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.1 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.05)
