"""Parameters on circles: phases and longitudes, wherever a turn begins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import inference
from diffsim.inference._parameters import Turns


TURN = 2 * np.pi
T = jnp.linspace(0.0, 10.0, 40)
SCATTER = 0.3 * np.random.default_rng(0).normal(size=40)
NOISE = inference.Gaussian(0.3)


def wave(model):
    return model["size"] * jnp.sin(2 * T + model["phase"])


def fitted(true, start, **how):
    data = wave({"size": 1.3, "phase": true}) + SCATTER
    free = {"size": ds.Free(transform="log"), "phase": ds.Free(**how)}
    return ds.fit(wave, {"size": 1.0, "phase": start}, data, noise=NOISE, free=free)


@pytest.fixture(scope="module")
def exact():
    """Linear least squares for the sine and the cosine, of a phase near 0."""
    data = wave({"size": 1.3, "phase": 0.02}) + SCATTER
    columns = np.stack([np.sin(2 * T), np.cos(2 * T)], axis=-1)
    a, b = np.linalg.lstsq(columns, data, rcond=None)[0]
    return np.arctan2(b, a)


def circular_distance(a, b):
    return np.abs((a - b + np.pi) % TURN - np.pi)


@pytest.mark.parametrize("start", [0.1, 3.0, 6.2, 700.0, -40.0])
def test_starts_anywhere_end_at_one_value_of_the_turn(start, exact):
    fit = fitted(0.02, start, period=TURN)
    np.testing.assert_allclose(fit.values[1], exact % TURN, atol=1e-6)
    assert 0 <= fit.start[1] < TURN
    assert not fit.at_bound.any()
    centered = fitted(0.02, start, period=(-np.pi, np.pi))
    np.testing.assert_allclose(centered.values[1], exact, atol=1e-6)
    np.testing.assert_allclose(centered.stderr, fit.stderr, rtol=1e-6)


def test_intervals_go_on_beyond_the_turn(exact):
    """They are those of the same fit in the middle of a turn."""
    near = fitted(0.02, 0.1, period=TURN).profile("phase")
    middle = fitted(0.02, 0.1, period=(-np.pi, np.pi)).profile("phase")
    np.testing.assert_allclose(near.errors, middle.errors, rtol=1e-5)
    assert np.ptp(near.points) < 1
    corners = fitted(0.02, 0.1, period=TURN).contour("size", "phase", points=4)
    assert np.ptp(corners.points[:, 1]) < 1


def test_intervals_are_a_turn_at_most():
    """Of a phase that hardly shows: it rises by 0.2 to the other side."""
    data = 0.02 * jnp.sin(2 * T + 1)
    fit = ds.fit(
        wave,
        {"size": 0.02, "phase": 0.5},
        data,
        noise=NOISE,
        free={"phase": ds.Free(period=TURN)},
    )
    found = fit.profile("phase")
    assert found.at_bound == (True, True)
    np.testing.assert_allclose(found.errors, (-np.pi, np.pi), rtol=2e-6)


def test_optima_a_turn_apart_are_one(exact):
    data = wave({"size": 1.3, "phase": 0.02 - exact}) + SCATTER
    free = {"phase": ds.Free(period=TURN)}
    fit = ds.fit(
        wave, {"size": 1.3, "phase": 1.0}, data, noise=NOISE, free=free, starts=8
    )
    assert len(fit.optima) == 1


def test_von_mises_has_no_walls():
    """Its maximum with the data is on the other side of ±π from two of three starts."""
    distributions = pytest.importorskip("numpyro.distributions")
    prior = distributions.VonMises(-3.1, 4.0)
    ends = [fitted(3.1, start, prior=prior) for start in (-3.0, 2.0, 0.3)]
    grid = jnp.linspace(2.5, 3.5, 4001)
    data = wave({"size": 1.3, "phase": 3.1}) + SCATTER

    def loss(phase):
        size = ends[0].values[0]
        misfit = jnp.sum(((data - size * jnp.sin(2 * T + phase)) / 0.3) ** 2) / 2
        return misfit - 4.0 * jnp.cos(phase + 3.1)

    best = grid[jnp.argmin(jax.vmap(loss)(grid))]
    for fit in ends:
        assert circular_distance(fit.values[1], best) < 5e-4
        assert not fit.at_bound.any()
        assert fit.status == ds.RESULTS.successful


def test_angles_of_one_distribution_are_each_on_a_circle():
    distributions = pytest.importorskip("numpyro.distributions")
    both = distributions.SineBivariateVonMises(3.1, -3.1, 4.0, 4.0, 1.0)
    for prior in (both, [distributions.VonMises(-3.0, 4.0), (3.0, 0.5)]):
        fit = ds.fit(
            lambda model: jnp.stack([jnp.cos(model["a"]), jnp.sin(model["a"])]),
            {"a": jnp.array([-3.0, 3.0])},
            jnp.stack([jnp.cos(jnp.full(2, 3.2)), jnp.sin(jnp.full(2, 3.2))]),
            noise=inference.Gaussian(0.2),
            free={"a": ds.Free(prior=prior)},
        )
        assert np.all(circular_distance(fit.values, 3.2) < 0.2)


def test_gaussian_priors_take_the_shorter_way():
    data = wave({"size": 1.3, "phase": 0.1}) + SCATTER
    start = {"size": 1.3, "phase": 0.5}
    phases = []
    for mean in (-0.2, TURN - 0.2):
        free = {"phase": ds.Free(period=TURN, prior=(mean, 0.05))}
        phases.append(ds.fit(wave, start, data, noise=NOISE, free=free).values[0])
    np.testing.assert_allclose(phases[0], phases[1], atol=1e-9)
    assert circular_distance(phases[0], -0.2) < circular_distance(phases[0], 0.1)


@pytest.mark.parametrize("prior", [None, (0.3, 4.0)])
def test_density_integrates_to_the_evidence_over_one_turn(prior):
    data = wave({"size": 1.3, "phase": 0.02}) + SCATTER
    free = {"phase": ds.Free(period=360.0 if prior is None else TURN, prior=prior)}
    unit = 1.0 if prior else np.pi / 180

    def predict(model):
        return wave({"size": 1.3, "phase": unit * model["phase"]})

    density = inference.log_density(
        predict, {"phase": 0.1}, data, noise=NOISE, free=free
    )
    turn = TURN / unit
    scale = density.variables.scale[0]
    u = (np.arange(2000) * turn / 2000 / scale)[:, None]
    found = jnp.sum(jnp.exp(jax.vmap(density)(u) + 20)) * turn / 2000 / scale
    x = (np.arange(2000) + 0.5) * turn / 2000
    if prior is None:
        log_prior = -np.log(turn) + 0 * x
    else:
        away = (x - 0.3 + turn / 2) % turn - turn / 2
        log_prior = -((away / 4.0) ** 2) / 2
        log_prior -= np.log(np.sum(np.exp(log_prior)) * turn / 2000)
    misfit = (data - jax.vmap(lambda x: predict({"phase": x}))(x)) / 0.3
    log_likelihood = -np.sum(misfit**2, axis=1) / 2 - 40 * np.log(0.3 * TURN**0.5)
    exact = np.sum(np.exp(log_likelihood + log_prior + 20)) * turn / 2000
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    np.testing.assert_allclose(
        density(density.start), density(density.start + turn / scale), rtol=1e-9
    )
    assert 0 <= density.values(density.start + 3 * turn / scale)[0] < turn


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"period": 0.0}, "period must be positive"),
        ({"period": (2.0, 1.0)}, "period must be positive"),
        ({"period": (0.0, None)}, "a number or a pair"),
        ({"period": TURN, "bounds": (0.0, 1.0)}, "cannot be combined"),
        ({"period": TURN, "transform": "log"}, "cannot be combined"),
        ({"period": TURN, "tied": "size"}, "cannot be combined"),
    ],
)
def test_bad_periods_are_refused(how, said):
    with pytest.raises(ValueError, match=said):
        ds.Free(**how)


def test_arrays_of_periods_and_of_angles():
    angles = {"a": jnp.array([0.1, 6.0])}
    data = jnp.stack([jnp.cos(jnp.array([-0.1, 0.2])), jnp.sin(jnp.array([-0.1, 0.2]))])
    for period in (np.full(2, TURN), (np.zeros(2), np.full(2, TURN))):
        fit = ds.fit(
            lambda model: jnp.stack([jnp.cos(model["a"]), jnp.sin(model["a"])]),
            angles,
            data,
            noise=NOISE,
            free={"a": ds.Free(period=period)},
        )
        np.testing.assert_allclose(fit.values, [TURN - 0.1, 0.2], atol=1e-6)


def test_a_little_before_the_turn_is_not_its_end():
    turns = Turns(jnp.zeros(1, "float32"), jnp.full(1, TURN, "float32"), (0,))
    assert turns.wrap(jnp.full(1, -1e-9, "float32")) == 0


def test_starts_are_anywhere_on_a_circle():
    """Of two optima half a turn apart the better one is found from beside the other."""

    def lobes(model):
        return jnp.cos(2 * model["phase"]) + 0.2 * jnp.cos(model["phase"])

    fit = ds.fit(
        lobes,
        {"phase": np.pi},
        jnp.array(1.2),
        noise=NOISE,
        free={"phase": ds.Free(period=TURN)},
        starts=8,
    )
    assert circular_distance(fit.values[0], 0.0) < 1e-3


def test_angles_with_a_transform_are_refused():
    distributions = pytest.importorskip("numpyro.distributions")
    with pytest.raises(ValueError, match="takes no transform"):
        fitted(0.1, 0.2, prior=distributions.VonMises(0.0, 1.0), transform="log")
