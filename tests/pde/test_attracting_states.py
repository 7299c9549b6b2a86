"""`steady_state` goes where time goes, and says so of states that repel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from diffsim import implicit, pde
from diffsim._results import RESULTS
from diffsim.pde._steady_state._growth import fastest_growth
from diffsim.pde._steady_state._steady_state import residual_of


def fish(start, n=50):
    """Fisher and Kolmogorov's equation between walls at which nothing lives."""
    law = pde.FisherKPP(0.01, growth_rate=1.0)
    return pde.Evolution(law, start, pde.Grid(n), pde.Dirichlet(0.0))


def phases(start, width):
    """Allen and Cahn's equation between walls, where both phases attract."""
    law = pde.Diffusion(width**2, lambda t, x, u: u - u**3)
    return pde.Evolution(law, start, pde.Grid(start.size), pde.Dirichlet(0.0))


def fire(start):
    """Bratu's equation, of whose two states the hotter one repels."""
    law = pde.Diffusion(1.0, lambda t, x, u: jnp.exp(u))
    return pde.Evolution(law, start, pde.Grid(start.size), pde.Dirichlet(0.0))


def after_long(rate, diffusivity, start, end=300.0):
    """The same by SciPy, in time: what is at rest between walls at zero."""
    n = start.size

    def slope(t, u):
        around = np.concatenate([-u[:1], u, -u[-1:]])
        return diffusivity * n**2 * np.diff(around, 2) + rate(u)

    found = scipy.integrate.solve_ivp(slope, (0, end), start, "BDF", rtol=1e-9)
    return found.y[:, -1]


def test_states_from_beside_a_repelling_one_are_those_that_time_comes_to():
    @jax.jit
    @jax.vmap
    def solve(level):
        return pde.steady_state(fish(jnp.full(50, level)))[0]

    exact = after_long(lambda u: u * (1 - u), 0.01, np.full(50, 0.005))
    for found in solve(jnp.array([0.005, 0.02, 0.3, 1.5])):
        np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_about_a_repelling_state_ends_where_time_takes_it(seed):
    """The wave that grows is hidden in others, which decay."""
    start = 0.01 * np.random.default_rng(seed).normal(size=64)
    found = pde.steady_state(phases(jnp.asarray(start), 0.2))[0]
    exact = after_long(lambda u: u - u**3, 0.04, start)
    np.testing.assert_allclose(found, exact, atol=1e-6)


HOT = 4 * jnp.sin(np.pi * pde.Grid(64).centers[0])


@pytest.mark.slow
def test_march_from_beside_a_repelling_state_does_not_end_there():
    """In time this explodes."""
    found = pde.steady_state_solution(fire(HOT), throw=False)
    assert np.all(np.isnan(found.value)) and found.status == RESULTS.no_steady_state


def test_repelling_state_is_a_failure_unless_it_is_asked_for():
    hot = fire(HOT)
    newton = implicit.NewtonKrylov()
    with pytest.raises(RuntimeError, match=r"repels.*`attracting=False` returns"):
        pde.steady_state(hot, solver=newton)
    value = pde.steady_state(hot, solver=newton, attracting=False)
    # In the middle of the continuous problem: θ = √2 cosh(θ/4), 2 ln cosh(θ/4).
    theta = implicit.root(lambda x, a: x - jnp.sqrt(2.0) * jnp.cosh(x / 4), 11.0)
    np.testing.assert_allclose(
        jnp.max(value), 2 * jnp.log(jnp.cosh(theta / 4)), rtol=2e-3
    )


class Brusselator(pde.AbstractReactionDiffusion):
    feed: float
    nonlinearity_degree = 3

    @property
    def diffusivities(self):
        return 0.01, 0.01

    def reaction(self, t, x, u):
        p, q = u
        made = p**2 * q - self.feed * p
        return jnp.stack([1 + made - p, -made])


def oscillating(feed):
    state = jnp.ones((2, 64)) * jnp.array([1.0, feed])[:, None]
    law = Brusselator(feed)
    return pde.Evolution(law, state, pde.Grid(64), pde.Neumann()), state


#: The fastest growth beside a state, in closed form of the discrete equation.
WAVE = 4 * 64**2 * np.sin(np.pi / 128) ** 2
GROWTHS = {
    "a wave of the phases": (phases(jnp.zeros(64), 0.2), 1 - 0.04 * WAVE),
    "just above onset": (phases(jnp.zeros(64), 0.318), 1 - 0.318**2 * WAVE),
    "just below onset": (phases(jnp.zeros(64), 0.319), 1 - 0.319**2 * WAVE),
    "a pair that turns, growing": (oscillating(2.5)[0], 0.25),
    "a pair that turns, decaying": (oscillating(1.5)[0], -0.25),
    "a mean that is kept": (
        pde.Evolution(pde.Diffusion(1.0), jnp.zeros(64), pde.Grid(64), pde.Neumann()),
        0.0,
    ),
}


@pytest.mark.parametrize("name", GROWTHS)
def test_growth_beside_a_state_is_the_largest_eigenvalue(name):
    run, exact = GROWTHS[name]
    rate, preconditioner = residual_of(run)
    y = run.initial_state()

    @jax.jit
    def growth(y):
        _, operator = jax.linearize(lambda y: rate(y, run), y)
        return fastest_growth(preconditioner.at(operator, y), operator, y)

    found = growth(y)
    np.testing.assert_allclose(found.rate, exact, atol=1e-9)
    assert found.is_growing == (exact > 0)
