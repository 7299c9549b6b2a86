"""Optax optimizers: reported convergence is convergence."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
import pytest
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.inference import FitOptions, Free, Gaussian, fit


X = np.linspace(0, 1, 15)
DESIGN = np.stack([np.ones(15), X, X**2], axis=1)
DATA = 1 + 2 * X - X**2 + 0.05 * np.random.default_rng(0).normal(size=15)
FREE = {"a": Free(bounds=(None, 0.9)), "b": Free(), "c": Free()}
START = {"a": 0.5, "b": 1.0, "c": -0.5}


def parabola(model):
    return DESIGN @ jnp.stack([model["a"], model["b"], model["c"]])


def bounded(solver, data=DATA, steps=3000, start=START):
    """With an upper bound on a that the data would exceed."""
    options = {"free": FREE, "solver": solver, "options": FitOptions(max_steps=steps)}
    return fit(parabola, start, data, noise=Gaussian(0.05), **options)


def held_at_the_bound():
    """The optimum by algebra: a at its bound, the others by least squares."""
    rest = np.linalg.lstsq(DESIGN[:, 1:], DATA - 0.9)[0]
    return np.array([0.9, *rest])


def decaying(kind, rate, **options):
    return kind(optax.cosine_decay_schedule(rate, 3000), **options)


OPTIMIZERS = {
    "lamb": decaying(optax.lamb, 0.02),
    "adam": decaying(optax.adam, 0.05),
    "rmsprop": decaying(optax.rmsprop, 0.02),
    "lion": decaying(optax.lion, 0.01),
    "adabelief": decaying(optax.adabelief, 0.05),
    "momentum": optax.sgd(2e-4, momentum=0.95),
}


@pytest.mark.parametrize("name", first_plain(OPTIMIZERS))
def test_optimizer_with_an_active_bound_ends_at_the_optimum(name):
    found = bounded(OPTIMIZERS[name])
    assert found.at_bound[0] and found.values[0] == 0.9
    off = np.abs(found.values - held_at_the_bound())[1:] / found.stderr[1:]
    assert np.max(off) < 0.05


@pytest.mark.parametrize(
    "solver",
    first_plain([optx.BFGS(1e-10, 1e-10), (optax.lbfgs(),)]),
    ids=["bfgs", "lbfgs"],
)
def test_solvers_without_bounds_end_at_the_optimum_within_them(solver):
    """By a logistic between two bounds and an exponential beside one, also in jit."""
    free = {
        "a": Free(bounds=(-50.0, 60.0)),
        "b": Free(bounds=(None, 40.0)),
        "c": Free(bounds=(-45.0, None)),
    }

    def found(a):
        start = {**START, "a": a}
        return fit(
            parabola, start, DATA, noise=Gaussian(0.05), solver=solver, free=free
        )

    best = np.linalg.lstsq(DESIGN, DATA)[0]
    one = found(0.5)
    assert one.status == RESULTS.successful
    assert np.max(np.abs(one.values - best) / one.stderr) < 1e-2
    np.testing.assert_array_equal(one.upper, [60, 40, np.inf])
    traced = jax.jit(lambda a: found(a).values)(0.5)
    assert np.max(np.abs(traced - best) / one.stderr) < 1e-2


def test_line_search_approaches_an_active_bound():
    found = bounded(optax.lbfgs())
    assert 0.9 - 1e-3 < found.values[0] <= 0.9
    off = np.abs(found.values - held_at_the_bound())[1:] / found.stderr[1:]
    assert np.max(off) < 0.1


@pytest.mark.slow
def test_lbfgs_without_bounds_ends_at_the_optimum():
    found = fit(parabola, START, DATA, noise=Gaussian(0.05), solver=optax.lbfgs())
    best = np.linalg.lstsq(DESIGN, DATA)[0]
    assert found.status == RESULTS.successful
    assert np.max(np.abs(found.values - best) / found.stderr) < 0.1


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(optax.sgd(1e-16), marks=pytest.mark.slow),
        optax.sgd(optax.exponential_decay(1e-5, 1, 0.5)),
        optx.BFGS(rtol=1e9, atol=1e9),
    ],
    ids=["tiny updates", "updates that die out", "loose tolerances"],
)
def test_small_updates_are_not_taken_for_convergence(solver):
    found = fit(parabola, START, DATA, noise=Gaussian(0.05), solver=solver)
    assert found.remaining_sigma > 0.1 and found.status == RESULTS.stopped_short
    assert "stopped before the optimum" in str(found)


def test_optimizer_whose_first_update_is_zero_continues():
    found = fit(parabola, START, DATA, noise=Gaussian(0.05), solver=optax.rprop(1e-2))
    assert found.steps > 10
    assert found.remaining_sigma < 0.1 or found.status != RESULTS.successful
