"""The free parameters of a model as a vector, and back."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from .._jaxpr._tracing import explain_tracer_errors
from .._parameter_selection import (
    LeafSelection,
    Selection,
    integers,
    select,
    selected_values,
    with_selected_values,
)
from .._types import PyTree
from .._validation import is_traced
from ..simulations import AbstractSimulation
from ._free import Free, Transform
from ._parameter_vectors import (
    distributions_of,
    fixed_names,
    parameter_spans,
    parameter_vectors,
)
from ._priors import Distribution, Prior, PriorTerm, checked_priors, prior_term
from ._tied import Tied, tied_parameters, tied_parts
from ._turns import Turns


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

    def limits(self) -> dict[str, Array]:
        """Bounds of the coordinates, as options of a solver."""
        return {"lower": self.z_lower, "upper": self.z_upper}

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
    how = _by_path(model, free) if isinstance(free, dict) else {}
    for path, value in how.items():
        if not isinstance(value, Free):
            raise ValueError(f"free[{path!r}] must be a Free(...), got {value!r}")
    ties = {path: value.tied for path, value in how.items() if value.tied is not None}
    how = {path: value for path, value in how.items() if path not in ties}
    if ties and not how:
        raise ValueError(
            "free must have a parameter that is not tied, got none; one that others "
            "follow is free itself"
        )
    selection = _selection(model, tuple(how) if how else free)
    tied = tied_parameters(model, ties, selection)
    spans = parameter_spans(selection, how, fixed_names(model, fixed))
    if not spans:
        raise ValueError("fixed must leave a parameter free, got all of them")
    selection = Selection(
        tuple(span.kept_part for span in spans),
        tuple(name for span in spans for name in span.names),
    )
    start = selected_values(model, selection)
    plain = [dataclasses.replace(span, prior=None) for span in spans]
    scale, turns, vectors = parameter_vectors(start, plain)
    transformed = [span for span in spans if span.transform is not None]
    found = Parameters(
        base=_with_arrays(model, (*selection.parts, *tied_parts(tied))),
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
    _check_start(found)
    return found


def _by_path(model: PyTree, free: dict[Any, Any]) -> dict[Any, Any]:
    """Options by path, where a key may be a function from the model to nodes."""
    found = {}
    for key, value in free.items():
        where = callable(key) and not isinstance(key, type)
        paths = [part.path for part in select(model, key).parts] if where else [key]
        found.update(dict.fromkeys(paths, value))
    return found


def _with_arrays(model: PyTree, parts: Sequence[LeafSelection]) -> PyTree:
    """The model with free numbers as arrays: another start compiles nothing.

    Of their own dtype, as those of a fitted model are: a Python float has none.
    """
    leaves, structure = jax.tree.flatten(model)
    for part in parts:
        leaf = jnp.asarray(leaves[part.leaf])
        leaves[part.leaf] = jnp.asarray(leaf, leaf.dtype)
    return jax.tree.unflatten(structure, leaves)


def _selection(model: PyTree, free: Any) -> Selection:
    passing = ()
    if isinstance(model, AbstractSimulation):
        # A Python float is a static epoch: freeing it would lose the step count.
        passing = ("t0",) if isinstance(model.t0, float) else ()
        free = type(model).free if free is None else free
    if free is None:
        _check_no_integers(model)
        free = "*"
    return select(model, free, passing=passing)


def _check_no_integers(model: PyTree):
    """Where every float is free, a 1 for 1.0 would be left out without a word."""
    found = integers(model)
    if found:
        names = ", ".join(name or "the array itself" for name in found[:6])
        raise ValueError(
            "model: free=None varies every float, and not the integers of "
            f"{names}; write 1.0 for 1 where a quantity is meant, or "
            "name what varies, free=[...]"
        )


def _check_start(found: Parameters):
    """One sentence for a start outside its bounds or where a transform is undefined."""
    numbers = (found.start, found.lower, found.upper, found.z_start)
    if any(map(is_traced, numbers)):
        return
    for name, *four in zip(found.names, *map(np.asarray, numbers), strict=True):
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
