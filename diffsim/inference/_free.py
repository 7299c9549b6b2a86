"""`Free`: how the parameters under a path vary, bounds and priors included.

`LevenbergMarquardt` keeps within bounds; other solvers search in unconstrained
coordinates, see `_unconstrained`.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._parameter_selection import LeafSelection, Selection, select
from .._types import PyTree
from .._validation import as_floating, finite, is_traced, positive
from ._priors import (
    Distribution,
    checked_prior,
    is_circular,
    is_distribution,
    support_bounds,
)


class Transform(eqx.Module):
    """A monotone change of variable, elementwise: `inverse(forward(x))` is x."""

    forward: Callable
    inverse: Callable


class Free(eqx.Module):
    r"""How the parameters under a path vary: `free={"bodies.masses": Free(...)}`.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t) + model["dark"]

    free = {
        "height": ds.Free(transform="log"),
        "rate": ds.Free(prior=(0.7, 0.01)),
        "dark": ds.Free(bounds=(0.0, None)),
    }
    start, noise = {"height": 1.0, "rate": 1.0, "dark": 0.1}, inference.Gaussian(0.05)
    data = decay({"height": 2.0, "rate": 0.7, "dark": 0.02})
    ds.fit(decay, start, data, noise=noise, free=free)
    ```

    **Arguments** (each a number, or an array in the shape of what the path selects)

    - `scale`: a typical change of the parameter, of its transformed value if there is
        a transform. Parameters are optimized in units of it. Levenberg-Marquardt does
        not depend on it; gradient descent does: a learning rate of 0.01 means a
        hundredth of a scale a step. None: 1 for a transformed parameter; else the
        standard deviation of the prior; else |start|, and where the start is 0 the
        largest |start| of that leaf, or 1.
    - `transform`: "log", or a pair (forward, inverse), or an object with these two
        methods: the parameter is optimized as `forward(parameter)`. Values, bounds,
        priors and error bars are always those of the parameter itself.
    - `bounds`: (lower, upper), None for an open side. Levenberg-Marquardt and Optax
        optimizers keep every point inside; solvers that know of no bounds, and
        optimizers with a line search, run in coordinates without (a logistic between
        two bounds, an exponential beside one). One that ends at a bound is flagged
        and has no error bar (NaN): its uncertainty is one-sided, and the error bars of
        the others hold at that bound.
    - `prior`: (mean, standard deviation) of a Gaussian prior; or a distribution of
        NumPyro, Distrax or your own, any object with `log_prob(value)`; or a list of
        either, one for each entry of an array. The density is that of the parameter
        itself, whatever its transform; to the information it adds its curvature where
        that is positive, and `fit.observed()` counts it everywhere. A support that a
        distribution of NumPyro states, as positive numbers, bounds the parameter where
        there are no `bounds`.
    - `period`: the parameter is on a circle: an angle, `period=2 * np.pi`, whose values
        are given from 0 to its period, or a pair (begin, end) of the turn they are
        given in. The prediction has to be the same a turn away. The search meets no
        walls; a Gaussian prior takes the shorter way around; without a prior every
        angle is as likely. Distributions of NumPyro on the circle, as `VonMises`, bring
        the period (−π, π) with them. Not together with bounds or a transform.
    - `tied`: the parameter is not free but follows others: the path of one that it
        equals, or a function of the model, `Free(tied=lambda m: 2 * m["a"])`, which
        sees the values of all that are free and of those that are tied before it.
    - `unit`: a label for reports and pictures, `unit="m/s"`; nothing is converted.

    **Good values:** `transform="log"` for what is positive and known to a factor;
    `scale` for positions and velocities that are near 0 at the start; `period` for
    longitudes and phases.
    """

    scale: Any
    transform: Transform | None
    bounds: tuple[Any, Any]
    prior: Any
    period: tuple[Any, Any] | None
    tied: Any
    unit: str | None = eqx.field(static=True)

    def __init__(
        self,
        scale: Any = None,
        transform: Any = None,
        bounds: Any = None,
        prior: Any = None,
        *,
        period: Any = None,
        tied: Any = None,
        unit: str | None = None,
    ):
        self.unit = unit
        self.tied = _checked_tie(tied, (scale, transform, bounds, prior, period))
        self.scale = scale if scale is None else positive("scale", scale)
        self.transform = _transform(transform)
        self.bounds = _pair("bounds", (None, None) if bounds is None else bounds)
        self.prior = checked_prior("prior", prior)
        self.period = _period(period, transform, bounds)


def _transform(given: Any) -> Transform | None:
    if given is None:
        return None
    if isinstance(given, str) and given == "log":
        return Transform(jnp.log, jnp.exp)
    if isinstance(given, tuple) and len(given) == 2 and all(map(callable, given)):
        return Transform(*given)
    forward, inverse = getattr(given, "forward", None), getattr(given, "inverse", None)
    if forward is not None and inverse is not None:
        return Transform(forward, inverse)
    raise ValueError(
        "transform must be 'log', a pair (forward, inverse) of functions or an object "
        f"with these methods, got {given!r}"
    )


def _period(given: Any, transform: Any, bounds: Any) -> tuple[Any, Any] | None:
    if given is None:
        return None
    if transform is not None or bounds is not None:
        raise ValueError(
            "period cannot be combined with transform or bounds: a circle has no ends; "
            "period=(begin, end) is the turn that values are given in"
        )
    turn = _pair("period", given if isinstance(given, tuple | list) else (0.0, given))
    if any(end is None for end in turn):
        raise ValueError(f"period must be a number or a pair (begin, end), got {given}")
    length = jnp.asarray(turn[1]) - jnp.asarray(turn[0])
    positive("period", length, "it is (begin, end)")
    finite("period", length)
    return turn


def _checked_tie(tied: Any, others: tuple[Any, ...]) -> str | Callable | None:
    """Return the path or function that a parameter follows, if it is nothing else."""
    if tied is None:
        return None
    if not isinstance(tied, str) and not callable(tied):
        raise ValueError(
            "tied must be the path of another parameter or a function of the model, "
            f"got {tied!r:.60}"
        )
    if any(other is not None for other in others):
        raise ValueError(
            "tied cannot be combined with scale, transform, bounds, prior or period: "
            "the parameter is not free; give them to the one that it follows"
        )
    return tied


def _pair(name: str, given: Any) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"{name} must be a pair (lower, upper), got {given!r}")
    for number in given:
        if number is not None:
            as_floating(name, number)
    return tuple(given)


class Span(eqx.Module):
    """A path, the options that it is given, and which of its entries vary."""

    part: LeafSelection = eqx.field(static=True)
    kept: tuple[int, ...] = eqx.field(static=True)
    begin: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    unit: str | None = eqx.field(static=True)
    circular: tuple[int, ...] = eqx.field(static=True)
    scale: Any
    transform: Transform | None
    lower: Any
    upper: Any
    mean: Any
    sd: Any
    prior: Any

    @property
    def size(self) -> int:
        return len(self.kept)

    @property
    def is_whole(self) -> bool:
        """Whether no entry is fixed."""
        return self.size == self.part.size

    @property
    def kept_part(self) -> LeafSelection:
        """The entries of the leaf that vary."""
        if self.is_whole:
            return self.part
        every = self.part.entries or tuple(range(self.part.size))
        entries = tuple(every[i] for i in self.kept)
        return LeafSelection(self.part.path, self.part.leaf, (self.size,), entries)

    def fill(self, what: str, given: Any) -> Array:
        """An option for each entry that varies."""
        shape = self.part.shape
        try:
            full = jnp.broadcast_to(jnp.asarray(given), shape).reshape(-1)
        except ValueError as error:
            name = {"mean": "prior", "sd": "prior", "scale": "scale"}
            raise ValueError(
                f"{name.get(what, 'bounds')} of {self.part.path!r} must be a number or "
                f"have shape {shape}, got shape {np.shape(given)}"
            ) from error
        return full if self.is_whole else full[np.asarray(self.kept)]

    def gaussian_entries(self) -> tuple[int, ...]:
        """Positions in the vector of all parameters of those with such a prior."""
        if isinstance(self.prior, list):
            has = [isinstance(self.prior[i], tuple) for i in self.kept]
        else:
            has = [isinstance(self.prior, tuple)] * self.size
        return tuple(self.begin + i for i, one in enumerate(has) if one)

    def is_bounded(self) -> bool:
        """Whether a side is closed, or traced and may be."""
        if len(self.circular) == self.size:
            return False
        sides = [side for side in (self.lower, self.upper) if side is not None]
        return any(is_traced(side) or np.any(np.isfinite(side)) for side in sides)


def fixed_names(model: PyTree, fixed: Any) -> frozenset[str]:
    """Names of the numbers that `fixed` selects."""
    if isinstance(fixed, str) or callable(fixed) or len(fixed):
        return frozenset(select(model, fixed, argument="fixed").names)
    return frozenset()


def parameter_spans(
    selection: Selection, how: dict[str, Free], fixed: frozenset[str]
) -> tuple[Span, ...]:
    """The paths of a selection with their options, without what is fixed."""
    spans, begin, before = [], 0, 0
    for part in selection.parts:
        names = selection.names[before : before + part.size]
        before += part.size
        kept = tuple(i for i, name in enumerate(names) if name not in fixed)
        if not kept:
            continue
        span = _span(part, kept, begin, names, how.get(part.path, Free()))
        spans.append(span)
        begin += span.size
    return tuple(spans)


def _span(part: LeafSelection, kept, begin: int, names, free: Free) -> Span:
    path, prior = part.path, free.prior
    if isinstance(prior, list) and len(prior) != part.size:
        raise ValueError(
            f"prior of {path!r} must be a list of one for each of its {part.size} "
            f"entries, got {len(prior)}"
        )
    if is_distribution(prior) and len(kept) < part.size:
        raise ValueError(
            f"fixed takes some entries of {path!r}, whose prior is one distribution "
            "for all of them; give a list of priors, one for each entry"
        )
    mean, sd = _gaussian(prior, part)
    lower, upper = free.bounds if free.period is None else free.period
    circular = [free.period is not None] * len(kept)
    if lower is None and upper is None:
        lower, upper = _support(prior, part)
        priors = prior if isinstance(prior, list) else [prior] * part.size
        circular = [is_circular(priors[i]) for i in kept]
    if any(circular) and free.transform is not None:
        raise ValueError(
            f"prior of {path!r} is one of angles, which takes no transform: a circle "
            "has no ends"
        )
    return Span(
        part=part,
        kept=kept,
        begin=begin,
        names=tuple(names[i] for i in kept),
        unit=free.unit,
        circular=tuple(begin + i for i, one in enumerate(circular) if one),
        scale=free.scale,
        transform=free.transform,
        lower=lower,
        upper=upper,
        mean=mean,
        sd=sd,
        prior=prior,
    )


def _support(prior: Any, part: LeafSelection) -> tuple[Any, Any]:
    """Bounds that the supports of distributions state, None where none does."""
    if not isinstance(prior, list):
        return support_bounds(prior)
    pairs = [support_bounds(one) for one in prior]
    sides = []
    for side, far in zip(zip(*pairs, strict=True), (-jnp.inf, jnp.inf), strict=True):
        filled = [jnp.asarray(far if x is None else x, float) for x in side]
        known = any(x is not None for x in side)
        sides.append(jnp.stack(filled).reshape(part.shape) if known else None)
    return sides[0], sides[1]


def _gaussian(prior: Any, part: LeafSelection) -> tuple[Any, Any]:
    """Mean and standard deviation of the entries that have them, else 0 and inf."""
    if prior is None or is_distribution(prior):
        return None, None
    if isinstance(prior, tuple):
        return prior
    pairs = [one if isinstance(one, tuple) else (0.0, np.inf) for one in prior]
    mean, sd = (jnp.stack(list(map(jnp.asarray, x))) for x in zip(*pairs, strict=True))
    return mean.reshape(part.shape), sd.reshape(part.shape)


def distributions_of(
    spans: tuple[Span, ...], start: Array
) -> tuple[tuple[Distribution, ...], tuple[Distribution, ...]]:
    """Priors that are no Gaussians: products over entries, and others."""
    found = []
    for span in spans:
        if is_distribution(span.prior):
            given, path = span.prior, span.part.path
            found.append(Distribution.of(given, span.begin, span.part.shape, path))
        elif isinstance(span.prior, list):
            for i, entry in enumerate(span.kept):
                if is_distribution(span.prior[entry]):
                    given, name = span.prior[entry], span.names[i]
                    found.append(Distribution.of(given, span.begin + i, (), name))
    single = tuple(one for one in found if one.is_elementwise(start))
    return single, tuple(one for one in found if not one.is_elementwise(start))
