"""The free parameters of a model as a vector, and back."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from .._jaxpr._tracing import explain_tracer_errors
from .._jit._fresh_jit import fresh_jit
from .._parameter_selection import (
    Selection,
    integers,
    select,
    selected_values,
    with_selected_values,
)
from .._types import PyTree
from .._validation import function_of, is_traced
from ..simulations import AbstractSimulation
from ._free import Free, Span, Transform, distributions_of, fixed_names, parameter_spans
from ._priors import (
    Distribution,
    Prior,
    PriorTerm,
    checked_priors,
    prior_term,
)


class Turns(eqx.Module):
    """The `entries` of a vector that are on circles, and the turn they are given in."""

    begin: Float[Array, " entry"]
    length: Float[Array, " entry"]
    entries: tuple[int, ...] = eqx.field(static=True)

    def wrap(self, x: Array) -> Array:
        """The same numbers, within the turn."""
        if not self.entries:
            return x
        at = np.asarray(self.entries)
        turns = jnp.floor((x[at] - self.begin) / self.length)
        x = x.at[at].add(-turns * self.length)
        # A number a little before the turn may round to its end.
        turns = jnp.where(x[at] >= self.begin + self.length, 1, 0)
        return x.at[at].add(-turns * self.length)

    def nearest(self, x: Array, center: Array) -> Array:
        """The same numbers, within half a turn of `center`."""
        if not self.entries:
            return x
        at = np.asarray(self.entries)
        turns = jnp.round((x[at] - center[at]) / self.length)
        return x.at[at].add(-turns * self.length)

    def around(
        self, center: Array, ends: tuple[Array, Array], per_unit: Any = 1.0
    ) -> tuple[Array, Array]:
        """`ends`, lower and upper; on circles half a turn from `center`.

        Where they are coordinates, `per_unit` is how many of them a unit is.
        """
        at = np.asarray(self.entries, int)
        half = self.length / 2 * jnp.broadcast_to(per_unit, center.shape)[at]
        lower, upper = ends
        return lower.at[at].set(center[at] - half), upper.at[at].set(center[at] + half)


class Tied(eqx.Module):
    """Numbers that are copied from a path, or computed from the model."""

    function: Callable | None
    source: Selection | None = eqx.field(static=True)
    selection: Selection = eqx.field(static=True)

    def follow(self, model: PyTree[Any]) -> PyTree[Any]:
        """The model with these numbers as the others have them."""
        return with_selected_values(model, self.selection, self.values(model))

    def values(self, model: PyTree[Any]) -> Array:
        """The numbers themselves."""
        size = len(self.selection.names)
        if self.function is None:
            assert self.source is not None
            numbers = selected_values(model, self.source)
        else:
            with explain_tracer_errors("tied", self.function):
                numbers = jnp.ravel(jnp.asarray(self.function(model)))
        if numbers.size not in (1, size):
            several = f" or {size}" if size > 1 else ""
            raise ValueError(
                f"tied of {self.selection.parts[0].path!r} must give one number"
                f"{several}, got {numbers.size}"
            )
        return jnp.broadcast_to(numbers, (size,))


class Coordinates(eqx.Module):
    r"""The change of variables $z = \text{forward}(x) / \text{scale}$."""

    scale: Float[Array, " parameter"]
    turns: Turns
    transforms: tuple[Transform, ...]
    spans: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def coordinates(self, values: Array) -> Array:
        """The coordinates of physical `values`."""
        z = values
        for (begin, end), transform in zip(self.spans, self.transforms, strict=True):
            with explain_tracer_errors("transform", transform.forward):
                z = z.at[begin:end].set(transform.forward(values[begin:end]))
        return z / self.scale

    def values(self, z: Array) -> Array:
        """Physical values of the coordinates `z`."""
        x = z * self.scale
        for (begin, end), transform in zip(self.spans, self.transforms, strict=True):
            with explain_tracer_errors("transform", transform.inverse):
                x = x.at[begin:end].set(transform.inverse(x[begin:end]))
        return self.turns.wrap(x)


class Parameters(eqx.Module):
    """The free numbers of a model: physical values x, and coordinates z to optimize.

    `start`, `lower`, `upper` are values, `z_start`, `z_lower`, `z_upper` the same in
    coordinates; `prior_sd` is inf for a parameter without a Gaussian prior. Of one on a
    circle, `lower` and `upper` are the ends of the turn that values are given in.
    `distributions` are other priors, products over entries first and then those of
    several entries together; `priors` those of functions of the model; `tied` are
    parameters that follow others.
    """

    base: PyTree
    start: Float[Array, " parameter"]
    lower: Float[Array, " parameter"]
    upper: Float[Array, " parameter"]
    prior_mean: Float[Array, " parameter"]
    prior_sd: Float[Array, " parameter"]
    z_start: Float[Array, " parameter"]
    z_lower: Float[Array, " parameter"]
    z_upper: Float[Array, " parameter"]
    coordinates: Any  # `Coordinates`, or others that have no bounds
    distributions: tuple[tuple[Distribution, ...], tuple[Distribution, ...]]
    priors: tuple[Prior, ...]
    tied: tuple[Tied, ...]
    selection: Selection = eqx.field(static=True)
    units: tuple[str | None, ...] = eqx.field(static=True)
    has_prior: tuple[int, ...] = eqx.field(static=True)
    has_bounds: bool = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return self.selection.names

    def model(self, values: Array) -> PyTree:
        """The model with the physical `values` in place, and what follows them."""
        model = with_selected_values(self.base, self.selection, values)
        for one in self.tied:
            model = one.follow(model)
        return model

    def values(self, z: Array) -> Array:
        """Physical values of the coordinates `z`."""
        return self.coordinates.values(z)

    def values_near(self, center: Array, z: Array) -> Array:
        """The same, on circles within half a turn of the values `center`."""
        return self.coordinates.turns.nearest(self.values(z), center)

    def scattered(self, away: Array, size: Any) -> Array:
        """Moves of coordinates by standard normal `away`; all around on circles."""
        turns, scale = self.coordinates.turns, self.coordinates.scale
        at = np.asarray(turns.entries, int)
        once = (ndtr(away[:, at]) - 0.5) * turns.length / scale[at]
        return (size * away).at[:, at].set(once)

    @property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the coordinates."""
        return self.z_lower, self.z_upper

    @property
    def is_without_prior(self) -> bool:
        """Whether nothing is known before the data."""
        return not (self.has_prior or any(self.distributions) or self.priors)

    def prior(
        self, values: Array, expected: Any = False, slopes: Any = False
    ) -> PriorTerm:
        """All priors at the physical `values`."""
        return prior_term(self, values, expected, slopes)


def parameters(
    model: PyTree, free: Any, priors: Any = (), fixed: Any = ()
) -> Parameters:
    """The free parameters of `model` as `fit` and `fisher` take them."""
    options: dict[str, Free] = {}
    ties: dict[str, Any] = {}
    for key, value in free.items() if isinstance(free, dict) else ():
        # A key may be a function from the model to nodes.
        paths: list[Any] = [key]
        if callable(key) and not isinstance(key, type):
            paths = [part.path for part in select(model, key).parts]
        for path in paths:
            if not isinstance(value, Free):
                raise ValueError(f"free[{path!r}] must be a Free(...), got {value!r}")
            if value.tied is None:
                options[path] = value
            else:
                ties[path] = value.tied
    if ties and not options:
        raise ValueError(
            "free must have a parameter that is not tied, got none; one that others "
            "follow is free itself"
        )
    selection = _selection(model, tuple(options) if options else free)
    tied = tied_parameters(model, ties, selection) if ties else ()
    spans = parameter_spans(selection, options, fixed_names(model, fixed))
    if not spans:
        raise ValueError("fixed must leave a parameter free, got all of them")
    selection = Selection(
        tuple(span.kept_part for span in spans),
        tuple(name for span in spans for name in span.names),
    )
    start = selected_values(model, selection)
    plain = [dataclasses.replace(span, prior=None) for span in spans]
    scale, turns, vectors = parameter_vectors(start, plain)
    # Free numbers are arrays, so that another start compiles nothing, and of their own
    # dtype, as those of a fitted model are: a Python float has none.
    leaves, structure = jax.tree.flatten(model)
    for part in (*selection.parts, *(p for t in tied for p in t.selection.parts)):
        leaf = jnp.asarray(leaves[part.leaf])
        leaves[part.leaf] = jnp.asarray(leaf, leaf.dtype)
    transformed = [span for span in spans if span.transform is not None]
    free_parameters = Parameters(
        base=jax.tree.unflatten(structure, leaves),
        **vectors,
        coordinates=Coordinates(
            scale=scale,
            turns=turns,
            transforms=tuple(t for span in transformed if (t := span.transform)),
            spans=tuple((span.begin, span.begin + span.size) for span in transformed),
        ),
        distributions=distributions_of(spans, start),
        priors=checked_priors(priors),
        tied=tied,
        selection=selection,
        units=tuple(span.unit for span in spans for _ in range(span.size)),
        has_prior=tuple(i for span in spans for i in span.gaussian_entries()),
        has_bounds=any(span.is_bounded() for span in spans),
    )
    _check_start(free_parameters)
    return free_parameters


def _selection(model: PyTree, free: Any) -> Selection:
    passing = ()
    if isinstance(model, AbstractSimulation):
        # A Python float is a static epoch: freeing it would lose the step count.
        passing = ("t0",) if isinstance(model.t0, float) else ()
        free = type(model).free if free is None else free
    if free is None and (names := integers(model)):
        # Where every float is free, a 1 for 1.0 would be left out without a word.
        listed = ", ".join(name or "the array itself" for name in names[:6])
        raise ValueError(
            f"model: free=None varies every float, and not the integers of {listed}; "
            "write 1.0 for 1 where a quantity is meant, or name what varies, free=[...]"
        )
    return select(model, "*" if free is None else free, passing=passing)


def _check_start(free: Parameters):
    """One sentence for a start outside its bounds or where a transform is undefined."""
    numbers = (free.start, free.lower, free.upper, free.z_start)
    if any(map(is_traced, numbers)):
        return
    for name, *four in zip(free.names, *map(np.asarray, numbers), strict=True):
        start, lower, upper, z = map(float, four)
        if not np.isfinite(start):
            raise ValueError(f"model: {name} starts at {start}; give a finite number")
        if not lower < upper:
            raise ValueError(
                f"bounds of {name} must be (lower, upper) with lower < upper, got "
                f"({lower}, {upper})"
            )
        if not lower <= start <= upper:
            raise ValueError(
                f"model: {name} starts at {start}, outside its bounds ({lower}, "
                f"{upper}); move the start or the bounds"
            )
        if not np.isfinite(z):
            raise ValueError(
                f"transform: {name} starts at {start}, where the transform is {z}; a "
                "log needs a positive start"
            )


def tied_parameters(
    model: PyTree[Any], ties: dict[str, Any], free: Selection
) -> tuple[Tied, ...]:
    """The parameters of `free={path: Free(tied=...)}`, in their order."""
    parameters = []
    for path, given in ties.items():
        selection = select(model, path)
        both = set(selection.names) & set(free.names)
        if both:
            raise ValueError(
                f"free names {min(both)!r} twice, as free and as tied; name every "
                "number once"
            )
        function, source = given, None
        if isinstance(given, str):
            function, source = None, select(model, given, argument="tied")
        else:
            function_of("tied", given, ("model",))
        parameters.append(Tied(function, source, selection))
    return tuple(parameters)


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
