"""Ranges of parameters as quantile functions: of bounds, of priors, of both."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from .._validation import as_floating, finite, positive


#: From numbers in (0, 1), shape (run, *shape), to values of the same shape.
Quantile = Callable[[np.ndarray], np.ndarray]


class SampledRange(NamedTuple):
    """The values that a path may take, `shape` numbers a run.

    `quantile` maps the unit cube to them, None where nothing does; `draw` makes so
    many independent ones from a generator.
    """

    shape: tuple[int, ...]
    quantile: Quantile | None
    draw: Callable[[np.random.Generator, int], np.ndarray]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def sampled_ranges(free: Any) -> dict[str, SampledRange]:
    """A range for every path of `free`; a sentence for what is none."""
    if not isinstance(free, Mapping) or not free:
        raise ValueError(
            "free must map paths to ranges, {'length': (0.1, 2.0)} say, got "
            f"{free!r:.60}"
        )
    for path in free:
        if not isinstance(path, str) or not path:
            raise ValueError(
                f"free must be keyed by paths as 'bodies.masses[5]', got {path!r:.60}"
            )
    return {path: _as_range(path, span) for path, span in free.items()}


def _as_range(path: str, span: Any) -> SampledRange:
    """The range that `Free`, a pair (lower, upper) or a distribution is."""
    name = f"free[{path!r}]"
    if is_distribution(span):
        return _distribution_range(name, span, -np.inf, np.inf)
    # `inference` stands above: its `Free` is told by the fields.
    if all(hasattr(span, x) for x in ("bounds", "prior", "transform", "tied")):
        if span.tied is not None:
            raise ValueError(
                f"{name} is tied, and samples do not know the model that it follows; "
                "leave it out, and add its values to the samples of the others"
            )
        return _range_within(name, span.bounds, span.prior, span.transform)
    if isinstance(span, tuple | list) and len(span) == 2:
        return _range_within(name, span, None, None)
    raise ValueError(
        f"{name} must be a range: a pair (lower, upper), a ds.Free with bounds or a "
        f"prior, or a distribution with log_prob, got {span!r:.60}"
    )


def _range_within(name: str, bounds: Any, prior: Any, transform: Any) -> SampledRange:
    lower, upper = (
        np.full((), missing) if x is None else _numbers(f"{name}: {side}", x)
        for x, missing, side in zip(
            bounds, (-np.inf, np.inf), ("lower", "upper"), strict=True
        )
    )
    domain = ""
    if prior is not None and transform is not None:
        first, last = _domain(transform)
        lower, upper = np.fmax(lower, first), np.fmin(upper, last)
        domain = f" within ({first}, {last}), where the transform is defined"
    if not np.all(lower < upper):
        raise ValueError(
            f"{name} must have lower < upper{domain}, got lower {bounds[0]!r:.30} and "
            f"upper {bounds[1]!r:.30}"
        )
    if isinstance(prior, list):
        return _ranges_of_entries(name, (lower, upper), prior, transform)
    if prior is None:
        return _uniform_range(name, lower, upper, transform)
    if isinstance(prior, tuple):
        return _gaussian_range(name, lower, upper, prior)
    return _distribution_range(name, prior, lower, upper)


def _domain(transform: Any) -> tuple[Any, Any]:
    """Where a parameter is optimized by `fit`: all positive numbers for a log."""
    with np.errstate(all="ignore"):
        ends = [np.asarray(transform.inverse(z), float) for z in (-np.inf, np.inf)]
    first, last = np.minimum(*ends), np.maximum(*ends)
    # Both ends of 1/z are 0, which says nothing.
    is_known = first < last
    return np.where(is_known, first, -np.inf), np.where(is_known, last, np.inf)


def _uniform_range(name: str, lower: Any, upper: Any, transform: Any) -> SampledRange:
    """Between two bounds, uniform in the coordinate that `transform` makes."""
    for side, bound in (("a lower", lower), ("an upper", upper)):
        if not np.all(np.isfinite(bound)):
            raise ValueError(
                f"{name} needs {side} bound to be sampled, a finite number, or a "
                "prior: as the pair (lower, upper), Free(bounds=(lower, upper)) or "
                "Free(prior=(mean, standard deviation))"
            )
    shape = np.broadcast_shapes(lower.shape, upper.shape)
    if transform is None:
        return _range_of_quantile(shape, lambda u: lower + (upper - lower) * u)
    first, last = (np.asarray(transform.forward(x), float) for x in (lower, upper))
    if not np.all(np.isfinite(first) & np.isfinite(last)):
        raise ValueError(
            f"{name}: the transform must be finite at the bounds, got ({first}, "
            f"{last}) at ({lower}, {upper}); a log needs lower > 0"
        )

    def quantile(u: np.ndarray) -> np.ndarray:
        values = np.asarray(transform.inverse(first + (last - first) * u), float)
        return np.clip(values, lower, upper)

    return _range_of_quantile(shape, quantile)


def _gaussian_range(name: str, lower: Any, upper: Any, prior: tuple) -> SampledRange:
    # Imported by those who sample: SciPy's statistics take half a second.
    from scipy.stats import truncnorm

    mean, sd = (_numbers(f"{name}: prior", x) for x in prior)
    finite(f"{name}: prior", np.append(mean, sd))
    positive(f"{name}: prior", sd, "it is (mean, standard deviation)")
    shape = np.broadcast_shapes(lower.shape, upper.shape, mean.shape, sd.shape)
    a, b = (lower - mean) / sd, (upper - mean) / sd
    return _range_of_quantile(
        shape, lambda u: np.clip(mean + sd * truncnorm.ppf(u, a, b), lower, upper)
    )


def _distribution_range(
    name: str, distribution: Any, lower: Any, upper: Any
) -> SampledRange:
    """A distribution within bounds: by its quantile function, or by rejection."""
    prior = SampledDistribution(name, distribution)
    shape = np.broadcast_shapes(np.shape(lower), np.shape(upper), prior.shape)
    quantile = prior.quantile_within(lower, upper)
    if quantile is not None:
        return _range_of_quantile(shape, quantile)

    def draw(random: np.random.Generator, runs: int) -> np.ndarray:
        return prior.draw_within(lower, upper, random, (runs, *shape))

    return SampledRange(shape, None, draw)


def _ranges_of_entries(
    name: str, bounds: tuple[Any, Any], priors: list, transform: Any
) -> SampledRange:
    """A prior for each entry of an array, None for one that only has bounds."""
    shape = np.broadcast_shapes(*(x.shape for x in bounds)) or (len(priors),)
    if np.prod(shape, dtype=int) != len(priors):
        raise ValueError(
            f"{name} must have a prior for each entry, got {len(priors)} of them and "
            f"bounds of shape {shape}"
        )
    lower, upper = (np.broadcast_to(x, shape).reshape(-1) for x in bounds)
    entries = [
        _range_within(f"{name}, entry {i}", (lower[i], upper[i]), prior, transform)
        for i, prior in enumerate(priors)
    ]
    quantiles = [x.quantile for x in entries if x.quantile is not None]

    def quantile(u: np.ndarray) -> np.ndarray:
        columns = u.reshape(len(u), -1).T
        values = [f(column) for f, column in zip(quantiles, columns, strict=True)]
        return np.stack(values, axis=1).reshape(u.shape)

    def draw(random: np.random.Generator, runs: int) -> np.ndarray:
        values = [entry.draw(random, runs) for entry in entries]
        return np.stack(values, axis=1).reshape(runs, *shape)

    is_known = len(quantiles) == len(entries)
    return SampledRange(shape, quantile if is_known else None, draw)


def _range_of_quantile(shape: tuple[int, ...], quantile: Quantile) -> SampledRange:
    def draw(random: np.random.Generator, runs: int) -> np.ndarray:
        return quantile(clip_to_open_interval(random.random((runs, *shape))))

    return SampledRange(shape, quantile, draw)


def clip_to_open_interval(u: np.ndarray) -> np.ndarray:
    """Without the ends, where quantiles are infinite."""
    return np.clip(u, 2.0**-54, 1 - 2.0**-53)


def _numbers(name: str, value: Any) -> np.ndarray:
    return np.asarray(as_floating(name, value), np.float64)


#: Weight within the bounds, of all below the upper one, under which quantiles are
#: rounding errors.
_LEAST_WEIGHT = 1e-10
#: Drawn at once, and so many times, before bounds count as hardly ever met.
_DRAWS, _ROUNDS = 1000, 100


def is_distribution(x: Any) -> bool:
    """Whether it has a density, by the name of either family."""
    has_density = hasattr(x, "log_prob") or hasattr(x, "logpdf")
    return has_density and not isinstance(x, type)


class SampledDistribution:
    """A distribution by what samples ask of it, whichever package it is of.

    `shape` is that of one value. NumPyro and SciPy's newer ones have `icdf`, SciPy's
    others `ppf`, Distrax neither; Distrax draws by `sample(seed=...)`.
    """

    def __init__(self, name: str, distribution: Any):
        if getattr(distribution, "is_discrete", False) is True:
            raise ValueError(
                f"{name} must be a density of a real number, got the discrete "
                f"distribution {type(distribution).__name__}"
            )
        self.name, self.kind = name, type(distribution).__name__
        self.distribution: Any = distribution
        # `expand` and `to_event` of NumPyro hide the functions of single numbers.
        single = distribution
        while type(single).__name__ in {"ExpandedDistribution", "Independent"}:
            single = getattr(single, "base_dist", None)
        self._quantile = _scalar_function(single, "icdf") or _scalar_function(
            single, "ppf"
        )
        self._cdf = None
        self.shape = (
            *getattr(distribution, "batch_shape", ()),
            *getattr(distribution, "event_shape", ()),
        )
        if self._quantile is not None:
            # The cdf of a joint distribution is none of single numbers.
            self._cdf = _scalar_function(single, "cdf")
            value_shape = np.shape(self._quantile(np.full((), 0.5)))
            self.shape = np.broadcast_shapes(self.shape, value_shape)

    def quantile_within(
        self, lower: Any, upper: Any
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        """The quantile function of what is within bounds; None if it is not known."""
        quantile, cdf = self._quantile, self._cdf
        if quantile is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):  # where it has no end
            first, last = quantile(np.zeros(())), quantile(np.ones(()))
        if np.all(lower <= first) and np.all(upper >= last):
            return quantile
        if cdf is None:
            return None
        # A cdf may be anything outside of its support: the Pareto's is negative.
        low, high = np.fmax(lower, first), np.fmin(upper, last)
        if not np.all(low < high):
            raise ValueError(
                f"{self.name}: bounds ({lower}, {upper}) must overlap the support of "
                f"the prior, ({first}, {last})"
            )
        below = np.where(low > first, cdf(low), 0.0)
        until = np.where(high < last, cdf(high), 1.0)
        if not np.all(until - below > _LEAST_WEIGHT * until):
            raise ValueError(
                f"{self.name}: the prior {self.kind} has no weight to speak of within "
                f"({lower}, {upper}), where its cdf is from {below} to {until}; give "
                "bounds alone, or a prior of another width"
            )
        return lambda u: np.clip(quantile(below + (until - below) * u), low, high)

    def draw_within(
        self,
        lower: Any,
        upper: Any,
        random: np.random.Generator,
        shape: tuple[int, ...],
    ) -> np.ndarray:
        """Independent draws, run by run those that are within bounds."""
        draws = np.zeros((0, *shape[1:]))
        for _ in range(_ROUNDS):
            drawn = self._draw(random, (max(shape[0], _DRAWS), *shape[1:]))
            inside = (drawn >= lower) & (drawn <= upper)
            kept = drawn[inside.reshape(len(drawn), -1).all(axis=1)]
            draws = np.concatenate([draws, kept])
            if len(draws) >= shape[0]:
                return draws[: shape[0]]
        raise ValueError(
            f"{self.name}: fewer than one draw in {_ROUNDS} of the prior {self.kind} "
            f"is within ({lower}, {upper}); give bounds alone, or a prior of another "
            "width"
        )

    def _draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        key = jax.random.key(int(random.integers(2**32)))
        outer = shape[: len(shape) - len(self.shape)]
        draw = self.distribution.sample
        by_seed = "seed" in inspect.signature(draw).parameters
        drawn = draw(seed=key, sample_shape=outer) if by_seed else draw(key, outer)
        if np.shape(drawn) != shape:
            raise ValueError(
                f"{self.name}: sample(key, {outer}) of {self.kind} must have shape "
                f"{shape}, got {np.shape(drawn)}"
            )
        return np.asarray(drawn, np.float64)


def _scalar_function(
    distribution: Any, method: str
) -> Callable[[np.ndarray], np.ndarray] | None:
    """A function of single numbers, in doubles; None where it is not there."""
    function = getattr(distribution, method, None)
    if function is None:
        return None
    try:
        function(np.full((), 0.5))
    except NotImplementedError:
        return None
    return lambda x: np.asarray(function(x), np.float64)
