"""Options of all paths in `free`, as vectors over the parameters."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jaxpr._tracing import explain_tracer_errors
from .._jit._fresh_jit import fresh_jit
from .._parameter_selection import LeafSelection, Selection, select
from .._types import PyTree
from .._validation import is_traced
from ._free import Free, Transform, is_distribution
from ._priors import Distribution, is_circular, support_bounds
from ._turns import Turns


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


_Spans = Sequence["Span"]
_ELSEWHERE = {"lower": -np.inf, "upper": np.inf, "mean": 0.0, "sd": np.inf}


# Compiled, because a dozen small operations one by one take longer.
@fresh_jit
def parameter_vectors(
    start: Array, spans: Any
) -> tuple[Array, Turns, dict[str, Array]]:
    """The scale, circles and numbers of `Parameters`, from the options of all paths."""
    scale = _scales(spans, start)
    lower, upper, mean, sd = (
        _broadcast(spans, start, what) for what in ("lower", "upper", "mean", "sd")
    )
    circular = tuple(i for span in spans for i in span.circular)
    at = np.asarray(circular, int)
    turns = Turns(lower[at], upper[at] - lower[at], circular)
    start = turns.wrap(start)

    def coordinates(values: Array) -> Array:
        z = values
        for span in spans:
            if span.transform is not None:
                here = slice(span.begin, span.begin + span.size)
                with explain_tracer_errors("transform", span.transform.forward):
                    z = z.at[here].set(span.transform.forward(values[here]))
        return z / scale

    slope = jax.jvp(coordinates, (start,), (jnp.ones_like(start),))[1]
    down = jnp.where(slope < 0, -jnp.inf, jnp.inf)
    # Open sides stay open: 1/x would send both to 0, and a log of -inf is undefined.
    first, second = (
        jnp.where(jnp.isfinite(x) & ~jnp.isnan(z), z, open_side)
        for x, z, open_side in (
            (lower, coordinates(lower), -down),
            (upper, coordinates(upper), down),
        )
    )
    first, second = first.at[at].set(-jnp.inf), second.at[at].set(jnp.inf)
    return (
        scale,
        turns,
        {
            "start": start,
            "lower": lower,
            "upper": upper,
            "prior_mean": mean,
            "prior_sd": sd,
            "z_start": coordinates(start),
            "z_lower": jnp.minimum(first, second),
            "z_upper": jnp.maximum(first, second),
        },
    )


def _broadcast(spans: _Spans, start: Array, what: str) -> Array:
    """One option of every `Free` as a vector."""
    full = jnp.full_like(start, _ELSEWHERE[what])
    for span in spans:
        given = getattr(span, what)
        if given is not None:
            here = slice(span.begin, span.begin + span.size)
            full = full.at[here].set(span.fill(what, given))
    return full


def _scales(spans: _Spans, start: Array) -> Array:
    pieces = []
    for span in spans:
        here = jnp.abs(start[span.begin : span.begin + span.size])
        largest = jnp.max(here, initial=0)
        largest = jnp.where(largest > 0, largest, 1)
        scale = jnp.where(here > 0, here, largest)
        if span.scale is not None:
            scale = span.fill("scale", span.scale)
        elif span.transform is not None:
            scale = jnp.ones_like(here)
        elif len(span.circular) == span.size:
            turn = span.fill("upper", span.upper) - span.fill("lower", span.lower)
            scale = turn / (2 * np.pi)
        elif span.sd is not None:
            sd = span.fill("sd", span.sd)
            scale = jnp.where(jnp.isfinite(sd), sd, scale)
        pieces.append(scale.astype(start.dtype))
    return jnp.concatenate(pieces)
