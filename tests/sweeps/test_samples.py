"""Samples fill the ranges of parameters as their distributions say."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.stats import qmc

import diffsim as ds
from diffsim import sweeps


ALL = [sweeps.latin_hypercube, sweeps.sobol, sweeps.from_prior]
EVEN = [sweeps.latin_hypercube, sweeps.sobol]


class Rayleigh:
    """A user's distribution on positive numbers, by its density and what is given."""

    batch_shape = event_shape = ()

    def log_prob(self, value):
        return jnp.log(value) - value**2 / 2


class RayleighByQuantiles(Rayleigh):
    def icdf(self, q):
        return np.sqrt(-2 * np.log1p(-q))


class RayleighByBoth(RayleighByQuantiles):
    def cdf(self, value):
        return -np.expm1(-(value**2) / 2)


class RayleighByKey(Rayleigh):
    def sample(self, key, sample_shape=()):
        return jnp.hypot(*jax.random.normal(key, (2, *sample_shape)))


class RayleighByQuantilesAndKey(RayleighByQuantiles, RayleighByKey):
    """Without a distribution function, so that bounds are met by rejection."""


class RayleighBySeed(Rayleigh):
    """As Distrax has it."""

    def sample(self, *, seed, sample_shape=()):
        return jnp.hypot(*jax.random.normal(seed, (2, *sample_shape)))


class RayleighOfWrongShape(Rayleigh):
    def sample(self, key, sample_shape=()):
        return jnp.ones((*sample_shape, 2))


class Disk:
    """Uniform in the unit disk: two numbers that depend on each other."""

    batch_shape, event_shape = (), (2,)

    def log_prob(self, value):
        return jnp.where(jnp.sum(value**2) < 1, -jnp.log(jnp.pi), -jnp.inf)

    def sample(self, key, sample_shape=()):
        key_of_radius, key_of_angle = jax.random.split(key)
        radius = jnp.sqrt(jax.random.uniform(key_of_radius, sample_shape))
        angle = 2 * jnp.pi * jax.random.uniform(key_of_angle, sample_shape)
        return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=-1)


def within(cdf, lower, upper):
    """The distribution function of what is within bounds."""
    below, until = cdf(lower), cdf(upper)
    return lambda x: (cdf(x) - below) / (until - below)


RAYLEIGH = scipy.stats.rayleigh().cdf
SINGLE = {
    "pair": ((-1, 3), scipy.stats.uniform(-1, 4).cdf),
    "bounds": (ds.Free(bounds=(2.0, 3.0)), scipy.stats.uniform(2, 1).cdf),
    "log": (
        ds.Free(bounds=(1e-3, 1e2), transform="log"),
        scipy.stats.loguniform(1e-3, 1e2).cdf,
    ),
    "decreasing transform": (
        ds.Free(bounds=(0.5, 4.0), transform=(lambda x: 1 / x, lambda z: 1 / z)),
        lambda x: (2 - 1 / x) / (2 - 1 / 4),
    ),
    "Gaussian": (ds.Free(prior=(5.0, 0.1)), scipy.stats.norm(5, 0.1).cdf),
    "Gaussian, one bound": (
        ds.Free(prior=(0.1, 1.0), bounds=(0.0, None)),
        within(scipy.stats.norm(0.1, 1.0).cdf, 0.0, np.inf),
    ),
    "Gaussian, far tail": (
        ds.Free(prior=(0.0, 1.0), bounds=(9.0, 12.0)),
        # Of the other tail, whose distribution function is not rounded to one.
        lambda x: 1 - within(scipy.stats.norm().cdf, -12.0, -9.0)(-x),
    ),
    "Gaussian, log": (
        ds.Free(prior=(0.1, 1.0), transform="log"),
        within(scipy.stats.norm(0.1, 1.0).cdf, 0.0, np.inf),
    ),
    "Gaussian, transform without a domain": (
        ds.Free(prior=(5.0, 0.1), transform=(lambda x: 1 / x, lambda z: 1 / z)),
        scipy.stats.norm(5, 0.1).cdf,
    ),
    "SciPy": (scipy.stats.gamma(2.0), scipy.stats.gamma(2.0).cdf),
    "quantiles": (RayleighByQuantiles(), RAYLEIGH),
    "prior": (ds.Free(prior=RayleighByQuantiles(), transform="log"), RAYLEIGH),
    "prior, bounds": (
        ds.Free(prior=RayleighByBoth(), bounds=(0.5, 2.0)),
        within(RAYLEIGH, 0.5, 2.0),
    ),
    "prior, bounds beyond its support": (
        ds.Free(prior=RayleighByBoth(), bounds=(-1.0, 2.0)),
        within(RAYLEIGH, 0.0, 2.0),
    ),
}
DRAWN = {
    "key": (RayleighByKey(), RAYLEIGH),
    "seed": (RayleighBySeed(), RAYLEIGH),
    "key, bounds": (
        ds.Free(prior=RayleighByKey(), bounds=(0.5, 2.0)),
        within(RAYLEIGH, 0.5, 2.0),
    ),
    "quantiles, bounds": (
        ds.Free(prior=RayleighByQuantilesAndKey(), bounds=(0.5, 2.0)),
        within(RAYLEIGH, 0.5, 2.0),
    ),
}


def rows(table):
    return [pytest.param(*row, id=name) for name, row in table.items()]


@pytest.mark.parametrize("sample", EVEN)
@pytest.mark.parametrize(("given", "cdf"), rows(SINGLE))
def test_every_interval_of_equal_probability_has_one_point(sample, given, cdf):
    """Of a Latin hypercube for any number of runs, of Sobol points for powers of two.

    1e-9 of an interval for the rounding of values and of distribution functions.
    """
    found = sample({"a": (0.0, 1.0), "b": given, "c": (1.0, 2.0)}, 64, seed=3)
    places = np.sort(64 * cdf(found["b"]))
    assert found["b"].shape == (64,) and found["b"].dtype == np.float64
    assert np.all(places > np.arange(64) - 1e-9)
    assert np.all(places < np.arange(64) + 1 + 1e-9)


@pytest.mark.parametrize(("given", "cdf"), rows(SINGLE | DRAWN))
def test_draws_are_distributed_as_the_prior(given, cdf):
    """By Kolmogorov and Smirnov: a wrong distribution of these has p < 1e-9."""
    found = sweeps.from_prior({"a": given}, 2000, seed=5)["a"]
    assert found.shape == (2000,) and found.dtype == np.float64
    assert scipy.stats.kstest(found, cdf).pvalue > 1e-3


def test_latin_hypercube_has_one_point_an_interval_for_any_number_of_runs():
    found = sweeps.latin_hypercube({"a": (0.0, 1.0), "b": (0.0, 1.0)}, 37, seed=0)
    for column in found.values():
        np.testing.assert_array_equal(np.sort((37 * column).astype(int)), range(37))
    assert abs(np.corrcoef(found["a"], found["b"])[0, 1]) < 0.5


def test_discrepancy_of_sobol_points_is_far_below_that_of_random_ones():
    free = {"x": (np.zeros(4), 1.0)}
    even, random = (
        qmc.discrepancy(sample(free, 256, seed=1)["x"])
        for sample in (sweeps.sobol, sweeps.from_prior)
    )
    assert even < random / 10


def test_first_half_of_sobol_points_is_the_smaller_sample():
    free = {"a": (0.0, 1.0), "b": ds.Free(prior=(0.0, 1.0))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # SciPy's, of what is no power of two
        small, large = (sweeps.sobol(free, runs, seed=4) for runs in (50, 100))
    for path in free:
        np.testing.assert_array_equal(small[path], large[path][:50])


@pytest.mark.parametrize("sample", ALL)
def test_samples_follow_from_the_seed(sample):
    free = {"a": (0.0, 1.0), "b": ds.Free(prior=(0.0, 1.0))}
    one, same, other = (sample(free, 8, seed=seed) for seed in (0, np.int64(0), 1))
    for path in free:
        np.testing.assert_array_equal(one[path], same[path])
        assert not np.any(one[path] == other[path])


def test_draws_by_key_follow_from_the_seed():
    one, same, other = (
        sweeps.from_prior({"a": RayleighByKey()}, 8, seed=seed)["a"]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.any(one == other)


@pytest.mark.parametrize("sample", ALL)
def test_samples_are_the_same_where_jax_has_single_precision(sample):
    free = {
        "a": ds.Free(bounds=(0.1, 0.3), transform="log"),
        "b": ds.Free(prior=(0.1, 0.3)),
    }
    in_double = sample(free, 8, seed=0)
    with jax.enable_x64(False):
        in_single = sample(free, 8, seed=0)
    for path in free:
        np.testing.assert_array_equal(in_single[path], in_double[path])


def test_samples_may_be_made_while_a_function_is_traced():
    free = {"a": ds.Free(bounds=(0.1, 0.3), transform="log"), "b": RayleighByKey()}

    @jax.jit
    def mean():
        found = sweeps.from_prior(free, 8, seed=0)
        return jnp.mean(found["a"]) + jnp.mean(found["b"])

    found = sweeps.from_prior(free, 8, seed=0)
    np.testing.assert_allclose(mean(), found["a"].mean() + found["b"].mean())


PRIORS = [(5.0, 0.1), RayleighByBoth(), None]
ARRAYS = {
    "pair": ((np.zeros((2, 3)), 1.0), (2, 3)),
    "bounds": (ds.Free(bounds=([0.0, 1.0], [2.0, 3.0])), (2,)),
    "log": (ds.Free(bounds=(0.1, [2.0, 3.0]), transform="log"), (2,)),
    "Gaussian": (ds.Free(prior=(np.arange(3.0), 0.1)), (3,)),
    "Gaussian, bounds": (ds.Free(prior=(0.0, 1.0), bounds=(np.zeros(2), 2.0)), (2,)),
    "SciPy": (scipy.stats.norm(np.arange(3.0), 1.0), (3,)),
    "a list": (ds.Free(prior=PRIORS, bounds=(0.0, 8.0)), (3,)),
    "a list, bounds": (
        ds.Free(prior=PRIORS, bounds=(0.0, np.full((3, 1), 8.0))),
        (3, 1),
    ),
}
DRAWN_ARRAYS = {
    "joint": (Disk(), (2,)),
    "joint, bounds": (ds.Free(prior=Disk(), bounds=(0.0, 1.0)), (2,)),
    "alike": (ds.Free(prior=RayleighByKey(), bounds=(0.0, np.full(3, 2.0))), (3,)),
    "a list by key": (
        ds.Free(prior=[RayleighByKey(), None], bounds=(0.0, 1.0)),
        (2,),
    ),
}


@pytest.mark.parametrize(
    ("sample", "given", "shape"),
    [
        pytest.param(sample, *row, id=f"{sample.__name__}, {name}")
        for sample in ALL
        for name, row in (ARRAYS | (DRAWN_ARRAYS if sample not in EVEN else {})).items()
    ],
)
def test_samples_of_arrays_are_runs_of_a_sweep(sample, given, shape):
    over = sample({"x": given, "y": (0.0, 1.0)}, 8, seed=0)
    assert over["x"].shape == (8, *shape) and over["x"].dtype == np.float64
    assert len(np.unique(over["x"])) == over["x"].size
    found = ds.sweep(
        lambda model: jnp.sum(model["x"]) + model["y"],
        {"x": jnp.zeros(shape), "y": jnp.array(0.0)},
        over,
    )
    expected = over["x"].reshape(8, -1).sum(axis=1) + over["y"]
    np.testing.assert_allclose(found.outputs, expected, rtol=1e-14)


def test_each_entry_has_its_own_range():
    free = ds.Free(prior=PRIORS, bounds=(0.5, [8.0, 2.0, 1.0]))
    found = sweeps.latin_hypercube({"x": free}, 64, seed=0)["x"]
    cdfs = (
        scipy.stats.norm(5, 0.1).cdf,
        within(RAYLEIGH, 0.5, 2.0),
        scipy.stats.uniform(0.5, 0.5).cdf,
    )
    for column, cdf in zip(found.T, cdfs, strict=True):
        np.testing.assert_array_equal(
            np.sort((64 * cdf(column)).astype(int)), range(64)
        )


def test_joint_draws_within_bounds_keep_their_dependence():
    """A quarter of the disk: means 4/(3π), correlation from E[xy] = 1/(2π)."""
    free = ds.Free(prior=Disk(), bounds=(0.0, 1.0))
    x = sweeps.from_prior({"x": free}, 20_000, seed=0)["x"]
    assert np.all(x >= 0) and np.all(np.sum(x**2, axis=1) < 1)
    # Five standard errors: the numbers have standard deviations below 0.3.
    np.testing.assert_allclose(x.mean(axis=0), 4 / (3 * np.pi), atol=0.01)
    np.testing.assert_allclose(np.mean(x[:, 0] * x[:, 1]), 1 / (2 * np.pi), atol=0.01)


def test_sobol_indices_of_the_ishigami_function_are_the_published_ones():
    """First-order indices by Saltelli's estimator (10.1016/j.cpc.2009.09.018).

    Pick-freeze: A and B are the halves of six-dimensional points, A_i is A with the
    column i of B. Over 24 seeds the largest error was 0.0025; that of as many random
    points was 0.03.
    """

    def ishigami(model):
        x = model["x"]
        return jnp.sin(x[0]) + 7 * jnp.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * jnp.sin(x[0])

    halves = sweeps.sobol({"x": (np.full(6, -np.pi), np.full(6, np.pi))}, 2**14, seed=0)
    a, b = np.split(halves["x"], 2, axis=1)
    mixed = [np.where(np.arange(3) == i, b, a) for i in range(3)]
    points = np.concatenate([a, b, *mixed])
    over = {f"x[{i}]": points[:, i] for i in range(3)}
    outputs = ds.sweep(ishigami, {"x": jnp.zeros(3)}, over).outputs
    of_a, of_b, *of_mixed = np.split(outputs, 5)
    variance = np.var(np.concatenate([of_a, of_b]))
    first_order = [np.mean(of_b * (y - of_a)) / variance for y in of_mixed]
    np.testing.assert_allclose(first_order, [0.3139, 0.4424, 0.0], atol=0.01)


@pytest.mark.slow  # imports of NumPyro and Distrax, and what they compile
@pytest.mark.filterwarnings("ignore")  # Distrax's own, of JAX, on import
def test_distributions_of_numpyro_and_distrax_are_sampled():
    numpyro = pytest.importorskip("numpyro.distributions")
    distrax = pytest.importorskip("distrax")
    gamma, normal = scipy.stats.gamma(2.0).cdf, scipy.stats.norm().cdf
    positive = scipy.stats.pareto(2.0, scale=1.5).cdf
    mixture = numpyro.MixtureSameFamily(
        numpyro.Categorical(jnp.array([0.25, 0.75])),
        numpyro.Normal(jnp.array([0.0, 9.0]), 1.0),
    )
    both = {
        "gamma": (numpyro.Gamma(2.0, 1.0), gamma),
        "bounded": (
            ds.Free(prior=numpyro.Gamma(2.0, 1.0), bounds=(1.0, 3.0)),
            within(gamma, 1.0, 3.0),
        ),
        "bounded, beyond its support": (
            ds.Free(prior=numpyro.Pareto(1.5, 2.0), bounds=(0.0, 4.0)),
            within(positive, 1.5, 4.0),
        ),
        "expanded": (numpyro.Normal(0.0, 1.0).expand([2]).to_event(1), normal),
        "batch": (numpyro.Normal(jnp.zeros(2), 1.0), normal),
    }
    drawn = {
        "distrax": (distrax.Normal(0.0, 1.0), normal),
        "distrax, bounded": (
            ds.Free(prior=distrax.Normal(0.0, 1.0), bounds=(0.0, None)),
            within(normal, 0.0, np.inf),
        ),
        "joint": (numpyro.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), normal),
        "mixture": (mixture, lambda x: 0.25 * normal(x) + 0.75 * normal(x - 9.0)),
    }
    even = {path: given for path, (given, _) in both.items()}
    for path, values in sweeps.latin_hypercube(even, 64, seed=0).items():
        for column in values.reshape(64, -1).T:
            places = np.sort(64 * both[path][1](column)).astype(int)
            np.testing.assert_array_equal(places, range(64), path)
    free = {path: given for path, (given, _) in (both | drawn).items()}
    for path, values in sweeps.from_prior(free, 2000, seed=0).items():
        for column in values.reshape(2000, -1).T:
            pvalue = scipy.stats.kstest(column, (both | drawn)[path][1]).pvalue
            assert pvalue > 1e-3, path
    for path, (given, _) in drawn.items():
        with pytest.raises(ValueError, match="quantile function, icdf"):
            sweeps.sobol({path: given}, 8, seed=0)


INVALID = {
    "no mapping": (["a"], "free must map paths to ranges"),
    "nothing": ({}, "free must map paths to ranges"),
    "no path": ({0: (0.0, 1.0)}, "free must be keyed by paths.* got 0"),
    "empty path": ({"": (0.0, 1.0)}, "free must be keyed by paths"),
    "a number": ({"a": 1.0}, r"free\['a'\] must be a range: a pair.* got 1.0"),
    "a class": ({"a": RayleighByKey}, "must be a range: a pair.* got <class"),
    "discrete": ({"a": scipy.stats.randint(0, 5)}, "must be a range: a pair"),
    "three": ({"a": (0.0, 1.0, 2.0)}, "must be a range: a pair"),
    "words": ({"a": ("low", "high")}, r"free\['a'\]: lower must be real numbers"),
    "one bound": ({"a": ds.Free(bounds=(0.0, None))}, r"\['a'\] needs an upper bound"),
    "one side": ({"a": (None, 1.0)}, r"free\['a'\] needs a lower bound"),
    "infinite": ({"a": (0.0, np.inf)}, "needs an upper bound to be sampled, a finite"),
    "no range": ({"a": ds.Free()}, "needs a lower bound to be sampled"),
    "NaN": ({"a": (np.nan, 1.0)}, "must have lower < upper"),
    "reversed": ({"a": (1.0, 0.0)}, "must have lower < upper, got lower 1.0 and upper"),
    "a point": ({"a": ([0.0, 1.0], 1.0)}, "must have lower < upper"),
    "log of zero": ({"a": ds.Free(None, "log", (0.0, 1.0))}, "lower > 0"),
    "outside of the transform": (
        {"a": ds.Free(None, "log", (-2.0, -1.0), (0.0, 1.0))},
        r"must have lower < upper within \(0.0, inf\), where the transform is defined",
    ),
    "tied": ({"a": (0.0, 1.0), "b": ds.Free(tied="a")}, r"free\['b'\] is tied"),
    "list": ({"a": ds.Free(prior=[(0.0, 1.0)], bounds=([0.0] * 2, 1.0))}, "each entry"),
    "entry": ({"a": ds.Free(prior=[(0.0, 1.0), None])}, "entry 1 needs a lower bound"),
    "beyond": (
        {"a": ds.Free(prior=RayleighByBoth(), bounds=(-2.0, -1.0))},
        "must overlap the support",
    ),
    "tail": (
        {"a": ds.Free(prior=RayleighByBoth(), bounds=(8.0, 9.0))},
        "no weight to speak of within",
    ),
}


@pytest.mark.parametrize("sample", ALL)
@pytest.mark.parametrize(("free", "message"), rows(INVALID))
def test_invalid_ranges_raise_value_error(sample, free, message):
    with pytest.raises(ValueError, match=message):
        sample(free, 4, seed=0)


@pytest.mark.parametrize("sample", EVEN)
@pytest.mark.parametrize(
    "prior",
    [RayleighByKey(), Disk(), ds.Free(prior=RayleighByQuantiles(), bounds=(0, 1))],
)
def test_points_of_a_prior_without_quantile_function_raise_value_error(sample, prior):
    with pytest.raises(ValueError, match=r"free\['a'\].*or use sweeps.from_prior"):
        sample({"a": prior}, 4, seed=0)


def test_draws_that_cannot_be_made_raise_value_error():
    for prior, message in (
        (RayleighOfWrongShape(), r"sample\(key, \(1000,\)\).* must have shape \(1000,"),
        (ds.Free(prior=RayleighByKey(), bounds=(8, 9)), "fewer than one draw in 100"),
    ):
        with pytest.raises(ValueError, match=rf"free\['a'\]: {message}"):
            sweeps.from_prior({"a": prior}, 4, seed=0)
