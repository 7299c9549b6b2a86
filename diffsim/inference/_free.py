"""`Free`: how a parameter may vary."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._checks import as_floating, check_positive


class Transform(eqx.Module):
    """A monotone change of variable, elementwise: `inverse(forward(x))` is x."""

    forward: Callable
    inverse: Callable


class Free(eqx.Module):
    r"""How the parameters under a path vary: `free={"bodies.masses": Free(...)}`.

    **Arguments** (each a number, or an array in the shape of what the path selects)

    - `scale`: a typical change of the parameter, of its transformed value if there is
        a transform. Parameters are optimised in units of it. Levenberg-Marquardt does
        not depend on it; gradient descent does: a learning rate of 0.01 means a
        hundredth of a scale a step. None: 1 for a transformed parameter; else the
        standard deviation of the prior; else |start|, and where the start is 0 the
        largest |start| of that leaf, or 1.
    - `transform`: "log", or a pair (forward, inverse), or an object with these two
        methods: the parameter is optimised as `forward(parameter)`. Values, bounds,
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
