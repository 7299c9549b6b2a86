"""The free parameters of a model as a vector, and back."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit
from .._parameter_selection import (
    LeafSelection,
    Selection,
    integers,
    select,
    selected_values,
    with_selected_values,
)
from .._tracer_errors import explain_tracer_errors
from .._types import PyTree
from .._validation import as_floating, check_positive, is_traced
from ..simulations import AbstractSimulation


class Transform(eqx.Module):
    """A monotone change of variable, elementwise: `inverse(forward(x))` is x.

    ```python
    logit = inference.Transform(jax.scipy.special.logit, jax.nn.sigmoid)
    free = {"e": ds.Free(transform=logit)}  # between 0 and 1, wherever a step may go

    def extremes(orbit):  # peri- and apocenter, semi-major axis 5
        return 5 * jnp.stack([1 - orbit["e"], 1 + orbit["e"]])

    data, noise = jnp.array([4.0, 6.0]), inference.Gaussian(0.1)
    ds.fit(extremes, {"e": 0.9}, data, noise=noise, free=free).values  # 0.2
    ```
    """

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
        optimizers keep every point inside. A parameter that ends at a bound is flagged
        and has no error bar (NaN): its uncertainty is one-sided, and the error bars of
        the others hold at that bound.
    - `prior`: (mean, standard deviation) of a Gaussian prior.

    **Good values:** `transform="log"` for what is positive and known to a factor;
    `scale` for positions and velocities that are near 0 at the start.
    """

    scale: Any
    transform: Transform | None
    bounds: tuple[Any, Any]
    prior: tuple[Any, Any] | None

    def __init__(
        self,
        scale: Any = None,
        transform: Any = None,
        bounds: Any = None,
        prior: Any = None,
    ):
        if scale is not None:
            as_floating("scale", scale)
            check_positive("scale", scale)
        self.scale = scale
        self.transform = _transform(transform)
        self.bounds = _pair("bounds", (None, None) if bounds is None else bounds)
        self.prior = None if prior is None else _pair("prior", prior)
        if self.prior is not None:
            check_positive("prior", self.prior[1], "it is (mean, standard deviation)")


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


def _pair(name: str, given: Any) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        wanted = {"bounds": "(lower, upper)", "prior": "(mean, standard deviation)"}
        raise ValueError(f"{name} must be a pair {wanted[name]}, got {given!r}")
    for number in given:
        if number is not None or name == "prior":
            as_floating(name, number)
    return tuple(given)


class Coordinates(eqx.Module):
    r"""The change of variables $z = \text{forward}(x) / \text{scale}$."""

    scale: Float[Array, " parameter"]
    transforms: tuple[Transform, ...]
    spans: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def values(self, z: Array) -> Array:
        """Physical values of the coordinates `z`."""
        x = z * self.scale
        for (begin, end), transform in zip(self.spans, self.transforms, strict=True):
            with explain_tracer_errors("transform", transform.inverse):
                x = x.at[begin:end].set(transform.inverse(x[begin:end]))
        return x


class Parameters(eqx.Module):
    """The free numbers of a model: physical values x, and coordinates z to optimize.

    `start`, `lower`, `upper` are values, `z_start`, `z_lower`, `z_upper` the same in
    coordinates; `prior_sd` is inf for a parameter without a prior.
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
    coordinates: Coordinates
    selection: Selection = eqx.field(static=True)
    has_prior: tuple[int, ...] = eqx.field(static=True)
    has_bounds: bool = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return self.selection.names

    def model(self, values: Array) -> PyTree:
        """The model with the physical `values` in place."""
        return with_selected_values(self.base, self.selection, values)

    def values(self, z: Array) -> Array:
        """Physical values of the coordinates `z`."""
        return self.coordinates.values(z)

    def limits(self) -> dict[str, Array]:
        """Bounds of the coordinates, as options of a solver."""
        return {"lower": self.z_lower, "upper": self.z_upper}

    def prior_rows(self, values: Array) -> Array:
        """Whitened distances from the priors, for the parameters that have one."""
        which = np.asarray(self.has_prior, int)
        return (values[which] - self.prior_mean[which]) / self.prior_sd[which]


def parameters(model: PyTree, free: Any) -> Parameters:
    """The free parameters of `model` as `fit` and `fisher` take them."""
    how = dict(free) if isinstance(free, dict) else {}
    for path, value in how.items():
        if not isinstance(value, Free):
            raise ValueError(f"free[{path!r}] must be a Free(...), got {value!r}")
    selection = _selection(model, tuple(how) if how else free)
    start = selected_values(model, selection)
    offsets = np.cumsum([0, *(part.size for part in selection.parts)])
    spans = [
        (part, int(offset), how.get(part.path, Free()))
        for part, offset in zip(selection.parts, offsets, strict=False)
    ]
    transformed = [span for span in spans if span[2].transform is not None]
    scale, vectors = _vectors(start, spans)
    found = Parameters(
        base=_with_arrays(model, selection),
        **vectors,
        coordinates=Coordinates(
            scale=scale,
            transforms=tuple(free.transform for *_, free in transformed),
            spans=tuple((begin, begin + part.size) for part, begin, _ in transformed),
        ),
        selection=selection,
        has_prior=tuple(
            i
            for part, begin, free in spans
            if free.prior is not None
            for i in range(begin, begin + part.size)
        ),
        has_bounds=any(_is_bounded(free) for *_, free in spans),
    )
    _check_start(found)
    return found


def _is_bounded(free: Free) -> bool:
    """Whether a side is closed, or traced and may be."""
    sides = [side for side in free.bounds if side is not None]
    return any(is_traced(side) or np.any(np.isfinite(side)) for side in sides)


def _with_arrays(model: PyTree, selection: Selection) -> PyTree:
    """The model with free Python floats as arrays: another start compiles nothing."""
    leaves, structure = jax.tree.flatten(model)
    for part in selection.parts:
        leaves[part.leaf] = jnp.asarray(leaves[part.leaf])
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


_Spans = Sequence[tuple[LeafSelection, int, Free]]
_ELSEWHERE = {"lower": -np.inf, "upper": np.inf, "mean": 0.0, "sd": np.inf}


# Compiled, because a dozen small operations one by one take longer.
@fresh_jit
def _vectors(start: Array, spans: Any) -> tuple[Array, dict[str, Array]]:
    """The scale, and the numbers of `Parameters`, from the options of every path."""
    scale = _scales(spans, start)
    lower, upper, mean, sd = (
        _broadcast(spans, start, what) for what in ("lower", "upper", "mean", "sd")
    )

    def coordinates(values: Array) -> Array:
        z = values
        for part, begin, free in spans:
            if free.transform is not None:
                here = slice(begin, begin + part.size)
                with explain_tracer_errors("transform", free.transform.forward):
                    z = z.at[here].set(free.transform.forward(values[here]))
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
    return scale, {
        "start": start,
        "lower": lower,
        "upper": upper,
        "prior_mean": mean,
        "prior_sd": sd,
        "z_start": coordinates(start),
        "z_lower": jnp.minimum(first, second),
        "z_upper": jnp.maximum(first, second),
    }


def _broadcast(spans: _Spans, start: Array, what: str) -> Array:
    """One option of every `Free` as a vector."""
    full = jnp.full_like(start, _ELSEWHERE[what])
    for part, begin, free in spans:
        pair = free.bounds if what in ("lower", "upper") else free.prior
        given = None if pair is None else pair[what in ("upper", "sd")]
        if given is not None:
            name = "bounds" if what in ("lower", "upper") else "prior"
            full = full.at[begin : begin + part.size].set(_fill(name, given, part))
    return full


def _fill(name: str, given: Any, part: LeafSelection) -> Array:
    try:
        return jnp.broadcast_to(jnp.asarray(given), part.shape).reshape(-1)
    except ValueError as error:
        raise ValueError(
            f"{name} of {part.path!r} must be a number or have shape {part.shape}, got "
            f"shape {np.shape(given)}"
        ) from error


def _scales(spans: _Spans, start: Array) -> Array:
    pieces = []
    for part, begin, free in spans:
        here = jnp.abs(start[begin : begin + part.size])
        if free.scale is not None:
            scale = _fill("scale", free.scale, part)
        elif free.transform is not None:
            scale = jnp.ones_like(here)
        elif free.prior is not None:
            scale = _fill("prior", free.prior[1], part)
        else:
            largest = jnp.max(here, initial=0)
            largest = jnp.where(largest > 0, largest, 1)
            scale = jnp.where(here > 0, here, largest)
        pieces.append(scale.astype(start.dtype))
    return jnp.concatenate(pieces)


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
