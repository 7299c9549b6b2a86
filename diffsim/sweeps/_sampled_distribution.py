"""Distributions of NumPyro, Distrax and SciPy: quantiles and draws within bounds."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


#: Weight within the bounds, of all below the upper one, under which quantiles are
#: rounding errors.
_LEAST_WEIGHT = 1e-10
#: Drawn at once, and so many times, before bounds count as hardly ever met.
_DRAWS, _ROUNDS = 1000, 100


def is_distribution(given: Any) -> bool:
    """Whether it has a density, by the name of either family."""
    has_density = hasattr(given, "log_prob") or hasattr(given, "logpdf")
    return has_density and not isinstance(given, type)


class SampledDistribution:
    """A distribution by what samples ask of it, whichever package it is of.

    `shape` is that of one value. NumPyro and SciPy's newer ones have `icdf`, SciPy's
    others `ppf`, Distrax neither; Distrax draws by `sample(seed=...)`.
    """

    def __init__(self, name: str, given: Any):
        if getattr(given, "is_discrete", False) is True:
            raise ValueError(
                f"{name} must be a density of a real number, got the discrete "
                f"distribution {type(given).__name__}"
            )
        self.name = name
        self.given: Any = given
        single = _of_single_numbers(given)
        self._quantile = _scalar_function(single, "icdf") or _scalar_function(
            single, "ppf"
        )
        # That of a joint distribution is none of single numbers.
        known = self._quantile is not None
        self._cdf = _scalar_function(single, "cdf") if known else None
        self.shape = (
            *getattr(given, "batch_shape", ()),
            *getattr(given, "event_shape", ()),
        )
        if self._quantile is not None:
            one = np.shape(self._quantile(np.full((), 0.5)))
            self.shape = np.broadcast_shapes(self.shape, one)

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
        # Outside of its support a cdf may be anything: the Pareto's is negative.
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
                f"{self.name}: the prior {type(self.given).__name__} has no weight to "
                f"speak of within ({lower}, {upper}), where its cdf is from {below} to "
                f"{until}; give bounds alone, or a prior of another width"
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
        found = np.zeros((0, *shape[1:]))
        for _ in range(_ROUNDS):
            drawn = self._draw(random, (max(shape[0], _DRAWS), *shape[1:]))
            inside = (drawn >= lower) & (drawn <= upper)
            kept = drawn[inside.reshape(len(drawn), -1).all(axis=1)]
            found = np.concatenate([found, kept])
            if len(found) >= shape[0]:
                return found[: shape[0]]
        raise ValueError(
            f"{self.name}: fewer than one draw in {_ROUNDS} of the prior "
            f"{type(self.given).__name__} is within ({lower}, {upper}); give bounds "
            "alone, or a prior of another width"
        )

    def _draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        kind = type(self.given).__name__
        key = jax.random.key(int(random.integers(2**32)))
        outer = shape[: len(shape) - len(self.shape)]
        draw: Any = getattr(self.given, "sample", _no_sample)
        try:
            by_seed = "seed" in inspect.signature(draw).parameters
            drawn = draw(seed=key, sample_shape=outer) if by_seed else draw(key, outer)
        except NotImplementedError as error:
            raise ValueError(
                f"{self.name}: {kind} must have sample(key, sample_shape), as "
                "distributions of NumPyro do, or the quantile function icdf"
            ) from error
        if np.shape(drawn) != shape:
            raise ValueError(
                f"{self.name}: sample(key, {outer}) of {kind} must have shape {shape}, "
                f"got {np.shape(drawn)}"
            )
        return np.asarray(drawn, np.float64)


def _no_sample(key: Any, sample_shape: Any):
    raise NotImplementedError


def _of_single_numbers(given: Any) -> object:
    """Without `expand` and `to_event` of NumPyro, which hide the functions of one."""
    while type(given).__name__ in {"ExpandedDistribution", "Independent"}:
        given = getattr(given, "base_dist", None)
    return given


def _scalar_function(
    given: Any, method: str
) -> Callable[[np.ndarray], np.ndarray] | None:
    """A function of single numbers, in doubles; None where it is not there."""
    function = getattr(given, method, None)
    if function is None:
        return None
    try:
        function(np.full((), 0.5))
    except NotImplementedError:
        return None
    return lambda x: np.asarray(function(x), np.float64)
