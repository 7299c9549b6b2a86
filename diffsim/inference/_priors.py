"""Priors: what is known of parameters, and of functions of them, before the data."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._linalg import matmul
from .._types import PyTree
from .._validation import as_floating, as_vector, function_of, positive
from ._information_factor import curvature_rows, slope_share


class Prior(eqx.Module):
    r"""A prior on a function of the model, for `fit(..., priors=[...])`.

    ```python
    t = jnp.linspace(0.0, 20.0, 100)

    def speed(model):  # of a star with a planet
        phase = 2 * jnp.pi * t / model["P"]
        return model["a"] * jnp.sin(phase) + model["b"] * jnp.cos(phase)

    size = inference.Prior(lambda m: jnp.hypot(m["a"], m["b"]), (50.0, 2.0))
    start, noise = {"a": 30.0, "b": 10.0, "P": 4.2}, inference.Gaussian(5.0)
    ds.fit(speed, start, 48 * jnp.sin(1.5 * t), noise=noise, priors=[size])
    ```

    **Arguments**

    - `function`: from the model to a number or an array.
    - `prior`: what is known of it, as in `Free`: (mean, standard deviation), or a
        distribution with `log_prob(value)`.

    It multiplies the posterior by this factor; no Jacobian of the function enters.
    """

    function: Callable
    prior: Any

    def __init__(self, function: Any, prior: Any):
        function_of("function", function, ("model",))
        self.function = function
        self.prior = checked_prior("prior", prior)
        if prior is None or isinstance(self.prior, list):
            raise ValueError(
                "prior must be (mean, standard deviation) or one distribution with "
                f"log_prob(value), got {prior!r:.60}"
            )

    def rows(self, model: PyTree[Any]) -> Array | None:
        """Whitened distance from the mean; None for any other distribution."""
        if is_distribution(self.prior):
            return None
        mean, sd = self.prior
        return as_vector([(jnp.asarray(self.function(model)) - mean) / sd])

    def loss(self, model: PyTree[Any]) -> Array:
        """−ln p of any other distribution."""
        return -jnp.sum(_log_prob(self.prior, self.function(model)))

    def log_constant(self, model: PyTree[Any]) -> Array:
        """Normalization of a Gaussian, so that rows make a density."""
        count = np.size(jax.eval_shape(self.function, model))
        sd = jnp.broadcast_to(jnp.asarray(self.prior[1]), (count,))
        return -jnp.sum(jnp.log(sd)) - count * (0.5 * np.log(2 * np.pi))


class _Opaque:
    """A distribution that no transformation looks into."""

    def __init__(self, given: Any):
        self.given = given


class Distribution(eqx.Module):
    """A distribution as the prior of some entries of the vector of parameters."""

    numbers: Any
    opaque: Any = eqx.field(static=True)
    begin: int = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    path: str = eqx.field(static=True)

    @classmethod
    def of(
        cls, given: Any, begin: int, shape: tuple[int, ...], path: str
    ) -> "Distribution":
        """One whose numbers are traced, if it is a pytree that lets them be."""
        leaves, structure = jax.tree.flatten(given)
        shown = jax.tree.unflatten(structure, range(len(leaves)))
        # Those of Distrax lose what is no array, under transformations by Equinox.
        whole = len(jax.tree.leaves(shown)) == len(leaves)
        numbers, opaque = (given, None) if whole else (None, _Opaque(given))
        return cls(numbers, opaque, begin, shape, path)

    @property
    def part(self) -> slice:
        """The entries, which are all that it depends on."""
        return slice(self.begin, self.begin + int(np.prod(self.shape, dtype=int)))

    def log_prob(self, values: Array) -> Array:
        """Of each entry, or one number for all; −inf outside of a stated support."""
        distribution = self.numbers if self.opaque is None else self.opaque.given
        return _log_prob(distribution, values[self.part].reshape(self.shape))

    def is_elementwise(self, values: Array) -> bool:
        """Whether it is a product over entries."""
        try:
            return jax.eval_shape(self.log_prob, values).shape == self.shape
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"prior of {self.path!r}: its log_prob must take an array of shape "
                f"{self.shape} ({error})"
            ) from error


def _log_prob(given: Any, x: Array) -> Array:
    """Of each entry, or one number for all; −inf outside of a stated support."""
    with warnings.catch_warnings():
        # NumPyro's, of values outside of the support, which are told apart here.
        warnings.simplefilter("ignore")
        found = jnp.asarray(given.log_prob(x))
        inside = _is_inside(given, x)
    return found if inside is None else jnp.where(inside, found, -jnp.inf)


def _is_inside(given: Any, x: Array) -> Array | None:
    """Whether `x` is in the support that a distribution states, ends included.

    The density of a half-normal at 0 is finite, and a fit may end there.
    """
    support = getattr(given, "support", None)
    if not callable(support) or is_circular(given):
        return None
    lower, upper = support_bounds(given)
    if lower is None and upper is None:
        return jnp.asarray(support(x))
    above = True if lower is None else x >= lower
    below = True if upper is None else x <= upper
    return jnp.asarray(above) & jnp.asarray(below)


class PriorTerm(eqx.Module):
    """All priors at a point, as `AbstractComparison` is a data set.

    Gaussians are rows; a product over entries has a second derivative for each, and
    any other prior a matrix of them, by which rows are made.
    """

    gaussian: Float[Array, " row"]
    values: Float[Array, " parameter"]
    scores: Float[Array, " parameter"]
    weights: Float[Array, " parameter"]
    joint: tuple[Array, Array] | None
    others: Float[Array, ""]
    constant: Float[Array, ""]
    elementwise: tuple[int, ...] = eqx.field(static=True)

    def numbers(self) -> Array:
        """Gaussian rows, and the parameters with other priors."""
        parts = [self.gaussian, self.values[np.asarray(self.elementwise, int)]]
        return jnp.concatenate(parts if self.joint is None else [*parts, self.values])

    def whiten(self, tangent: Array) -> Array:
        """A change of the numbers in units of their information."""
        a, b = self.gaussian.size, len(self.elementwise)
        which = np.asarray(self.elementwise, int)
        rows = [tangent[:a], tangent[a : a + b] * self.weights[which]]
        if self.joint is not None:
            rows.append(matmul(self.joint[1], tangent[a + b :]))
        return jnp.concatenate(rows)

    def rows(self) -> Array:
        """The gradient in the same units."""
        which = np.asarray(self.elementwise, int)
        weights = self.weights[which]
        safe = jnp.where(weights > 0, weights, 1)
        scores = jnp.where(weights > 0, self.scores[which] / safe, 0)
        rows = [self.gaussian, scores]
        return jnp.concatenate(rows if self.joint is None else [*rows, self.joint[0]])

    def loss(self) -> Array:
        """−ln of the density, without the constants of Gaussians."""
        return matmul(self.gaussian, self.gaussian) / 2 + self.others

    def log_prob(self) -> Array:
        """ln of the density with all constants."""
        return self.constant - self.loss()


def prior_term(parameters: Any, values: Array, expected: Any, slopes: Any) -> PriorTerm:
    """The priors of `Parameters` at the physical `values`.

    On circles a Gaussian is one of the shorter way to its mean. Where not `expected`, a
    curvature counts by its size: steps are safe with that.
    """
    which = np.asarray(parameters.has_prior, int)
    sd, mean = parameters.prior_sd[which], parameters.prior_mean
    away = parameters.coordinates.turns.nearest(values, mean) - mean
    gaussian = [away[which] / sd]
    constant = -jnp.sum(jnp.log(sd)) - which.size * (0.5 * np.log(2 * np.pi))
    single, several = parameters.distributions
    joint_functions = [one for one in parameters.priors if is_distribution(one.prior)]
    for one in parameters.priors:
        if not is_distribution(one.prior):
            model = parameters.model(values)
            gaussian.append(one.rows(model).astype(values.dtype))
            constant += one.log_constant(model)

    def each(x: Array) -> Array:
        full = jnp.zeros_like(x)
        for one in single:
            size = int(np.prod(one.shape, dtype=int))
            part = slice(one.begin, one.begin + size)
            full = full.at[part].set(-one.log_prob(x).reshape(-1).astype(x.dtype))
        return full

    def together(x: Array) -> Array:
        total = -sum((jnp.sum(one.log_prob(x)) for one in several), jnp.zeros(()))
        model = parameters.model(x) if joint_functions else None
        return (total + sum(one.loss(model) for one in joint_functions)).astype(x.dtype)

    scores = weights = jnp.zeros_like(values)
    others, joint = jnp.zeros((), values.dtype), None
    if single:
        slope = _slope(each)
        scores, curvature = slope(values), _slope(slope)(values)
        sizes = jnp.where(expected, jnp.maximum(curvature, 0), jnp.abs(curvature))
        weights = jnp.sqrt(jnp.where(sizes > 0, sizes, 1)) * (sizes > 0)
        # Along a straight flank there is a slope and no curvature to step by.
        share = jnp.where(expected, slope_share(values.dtype, slopes), 1)
        weights = jnp.where(weights == 0, share * jnp.abs(scores), weights)
        others += jnp.sum(each(values))
    if several or joint_functions:
        positive = ~jnp.asarray(expected)
        joint = curvature_rows(together, values, positive=positive, slopes=slopes)
        others += together(values)
    return PriorTerm(
        gaussian=jnp.concatenate(gaussian),
        values=values,
        scores=scores,
        weights=weights,
        joint=joint,
        others=others,
        constant=constant,
        elementwise=tuple(
            i
            for one in single
            for i in range(one.begin, one.begin + int(np.prod(one.shape, dtype=int)))
        ),
    )


def _slope(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The derivative of a function that acts entry by entry."""
    return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


def support_bounds(given: Any) -> tuple[Any, Any]:
    """Bounds that the support of a distribution of NumPyro states, None for open."""
    support = _of_entries(getattr(given, "support", None))
    lower = getattr(support, "lower_bound", None)
    upper = getattr(support, "upper_bound", None)
    return lower, upper


def is_circular(given: Any) -> bool:
    """Whether a distribution of NumPyro is one of angles, without ends."""
    known = sys.modules.get("numpyro.distributions.constraints")
    support = _of_entries(getattr(given, "support", None))
    return known is not None and isinstance(support, type(known.circular))


def _of_entries(support: Any) -> object:
    """The support of every entry, where it is one for several of them."""
    return getattr(support, "base_constraint", support)


def checked_priors(priors: Any) -> tuple[Prior, ...]:
    """Priors on functions of the model, as a tuple."""
    found = (priors,) if isinstance(priors, Prior) else tuple(priors)
    for one in found:
        if not isinstance(one, Prior):
            raise ValueError(
                "priors must be a list of inference.Prior(function, prior), got "
                f"{one!r:.60}; priors of single parameters go into "
                "free={'path': Free(prior=...)}"
            )
    return found


def is_distribution(given: Any) -> bool:
    """Whether it has a density."""
    return hasattr(given, "log_prob") and not isinstance(given, type)


def checked_prior(name: str, given: Any) -> object:
    """A prior as one of its three forms: a distribution, a pair, or a list of them."""
    if given is not None and getattr(given, "is_discrete", False) is True:
        raise ValueError(
            f"{name} must be a density of a real number, got the discrete distribution "
            f"{type(given).__name__}"
        )
    if given is None or is_distribution(given):
        return given
    if isinstance(given, list) and any(
        is_distribution(x) or isinstance(x, tuple) or x is None for x in given
    ):
        return [checked_prior(name, one) for one in given]
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(
            f"{name} must be (mean, standard deviation), a distribution with "
            "log_prob(value), as numpyro.distributions.LogNormal(0.0, 1.0), or a list "
            f"of these, one for each entry, got {given!r:.60}"
        )
    for number in given:
        as_floating(name, number)
    positive(name, given[1], "it is (mean, standard deviation)")
    return tuple(given)
