"""`log_density`: the posterior as a function of any real numbers, for samplers."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from .._extras import optional_module
from .._jaxpr._tracing import closure_convert
from .._types import PyTree
from .._validation import array_of, as_floating, is_traced
from ..simulations import failures_as_nan
from ._fit_diagnosis import explain_swapped
from ._parameters import Parameters
from ._posterior import Posterior, posterior
from ._unconstrained import UnconstrainedCoordinates, coordinates_inside


class LogDensity(eqx.Module):
    r"""Logarithm of a posterior density of any real numbers u, from `log_density`.

    $$\ln p(u) = \ln L(x) + \ln\pi(x) + \ln\left|\frac{dx}{du}\right|, \qquad x = x(u)$$

    ```python
    t = jnp.linspace(0.0, 3.0, 40)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    data, noise = 2 * jnp.exp(-0.7 * t), inference.Gaussian(0.05)
    free = {"height": ds.Free(bounds=(0.0, None)), "rate": ds.Free(transform="log")}
    start = {"height": 1.0, "rate": 1.0}
    density = inference.log_density(decay, start, data, noise=noise, free=free)
    assert isinstance(density, inference.LogDensity)
    value, gradient = jax.jit(jax.value_and_grad(density))(density.start)
    density.values(density.start)  # of a draw: what it is in the model, here 1 and 1
    density.coordinates([2.0, 0.7])  # and back
    ```

    It is a plain function that compiles nothing of its own: put it, or its derivative,
    into `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jacfwd` and `jax.hessian`, or hand it
    to what does.

    **It never raises for what a run does:** where a simulation fails or the density is
    no finite number it is −∞, and its derivative is exactly 0, in forward and reverse
    mode, so that a sampler turns back there. Nowhere else does diffsim hide a gradient
    that is not finite.

    **Fields**, vectors in the order of `names`

    - `start`: the unconstrained coordinates of the model given.
    - `posterior`, `variables`: what it is made of.
    """

    posterior: Posterior
    variables: UnconstrainedCoordinates
    start: Float[Array, " parameter"]

    # `jax.jit` looks functions up by these; of an immutable one identity is enough.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free parameters, as those of a `Fit`."""
        return self.posterior.parameters.names

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return len(self.names)

    def __call__(self, u: Any) -> Float[Array, ""]:
        """Return ln p(u), −∞ where it is not finite."""
        u = self._vector("u", u)
        if not is_traced(u):
            # Converted it would be compiled in each call.
            return _finite_or_minus_infinity(self._log_prob(u))
        with failures_as_nan():
            # A function made anew, so that JAX traces what `predict` reads now.
            function, consts = closure_convert(lambda x: self._log_prob(x), u)
            return _without_gradient_of_failures(consts, u, function=function)

    def values(self, u: Any) -> Float[Array, " parameter"]:
        """Physical values of the coordinates `u`."""
        return self.variables.values(self._vector("u", u))

    def model(self, u: Any) -> PyTree[Any]:
        """The model with the values of the coordinates `u`."""
        return self.posterior.parameters.model(self.values(u))

    def coordinates(self, values: Any) -> Float[Array, " parameter"]:
        """Coordinates of physical `values`, those of `fit.values` for instance.

        **Raises:** `ValueError` for a value at a bound or beyond, which has none.
        """
        values = self._vector("values", values)
        return coordinates_inside(self.variables, self.names, values, "values")

    def to_numpyro(self) -> Callable[[], dict[str, Array]]:
        """Return a model for NumPyro, with a deterministic site for each of `names`.

        ```py
        init = numpyro.infer.init_to_value(values={"unconstrained": density.start})
        kernel = numpyro.infer.NUTS(density.to_numpyro(), init_strategy=init)
        ```

        What is sampled is the site `unconstrained`, the vector u; `log_density` is the
        factor. Without `init_strategy` NumPyro begins at random u of size up to 2. The
        model returns the parameters by name, so that others can call it and go on.
        """
        numpyro = optional_module("numpyro", "to_numpyro makes models of")
        distributions = optional_module("numpyro.distributions", "to_numpyro uses")
        real = distributions.constraints.real

        def model():
            flat = distributions.ImproperUniform(real, (), (self.size,))
            u = numpyro.sample("unconstrained", flat)
            numpyro.factor("log_density", self(u))
            pairs = zip(self.names, self.values(u), strict=True)
            return {name: numpyro.deterministic(name, x) for name, x in pairs}

        return model

    def _vector(self, name: str, given: Any) -> Array:
        vector = as_floating(name, given)
        names = ", ".join(self.names[:6]) + ", ..." * (self.size > 6)
        hint = f"a number for each of {names}; several vectors by jax.vmap"
        array_of(name, vector, (self.size,), hint)
        return vector.astype(self.start.dtype)

    def _log_prob(self, u: Array) -> Array:
        """As it comes, NaN where a simulation fails."""
        values, log_slope = self.variables.values_and_log_slope(u)
        compared = self.posterior.compared(values)
        log_likelihood = sum(part.log_prob() for part in compared.comparisons)
        log_prior = compared.prior.log_prob() - _log_mass(self.posterior.parameters)
        return (log_likelihood + log_prior + log_slope).astype(u.dtype)


def log_density(
    predict: Any,
    model: PyTree,
    data: PyTree,
    *,
    noise: Any,
    free: Any = None,
    priors: Any = (),
) -> LogDensity:
    """Posterior density of the parameters of a model, for NUTS and other samplers.

    ```python
    t = np.linspace(0.0, 10.0, 30)

    def growth(model):
        return model["capacity"] / (1 + 9 * jnp.exp(-model["rate"] * t))

    free = {"capacity": ds.Free(prior=(5.0, 2.0)), "rate": ds.Free(transform="log")}
    start, noise = {"capacity": 4.0, "rate": 1.0}, inference.Gaussian(0.1)
    data = growth({"capacity": 5.0, "rate": 0.8})
    density = inference.log_density(growth, start, data, noise=noise, free=free)

    def step(u, key):  # random-walk Metropolis
        moves, chance = jax.random.split(key)
        new = u + 0.02 * jax.random.normal(moves, u.shape)
        log_ratio = density(new) - density(u)
        u = jnp.where(jnp.log(jax.random.uniform(chance)) < log_ratio, new, u)
        return u, density.values(u)

    keys = jax.random.split(jax.random.key(0), 2000)
    _, draws = jax.lax.scan(step, density.start, keys)
    jnp.mean(draws, axis=0)  # capacity and rate
    ```

    **Arguments** are those of `fit`

    - `predict`: any JAX function of the model; returns a pytree of arrays, or a
        `Trajectory`.
    - `model`: a pytree, the start.
    - `data`: a pytree like the prediction.
    - `noise`: a likelihood, or a function from the model to one. `Gaussian()` of
        unknown scale has no density: make sigma a parameter.
    - `free`: which numbers vary, with their scales, transforms, bounds and priors.
    - `priors`: a list of `Prior`, on functions of the model.

    **Returns:** a `LogDensity`, a function of one vector u, in which every vector has a
    meaning. With y = forward(x) by `Free(transform=...)`, or y = x where there is none,
    y is lower + (upper − lower)/(1 + e⁻ᵘ) between two bounds, lower + eᵘ or upper − eᵘ
    with one, and `Free.scale` times u without bounds. Bounds under a transform are
    those of y. On a circle, `Free(period=...)`, x is in its turn and the density has
    the period in u: a sampler walks on through the turns, and an integral is over one.

    All constants are in it, so that its integral over u is the evidence, if priors are
    proper. Priors are densities of the parameter x itself. A Gaussian one is normalized
    between the bounds, and two bounds or a period alone are a uniform prior; a
    distribution counts as it is, and so does a `Prior`. A parameter with neither has
    the improper flat prior of density 1, whatever its transform, and so has one with a
    single bound; the posterior may then be improper, too. Where the range of a
    transform cuts a Gaussian prior off, say so:
    `Free(transform="log", prior=(1.0, 1.0), bounds=(0.0, None))`.

    **Raises:** `ValueError` as `fit` does, and for a start at a bound.

    **Good values:** begin at the best fit, `density.coordinates(fit.values)`, where no
    parameter is at a bound. Window adaptation finds the scale of each direction;
    `Free.scale` near the expected error bars saves a part of it.
    """
    if data is None:
        raise ValueError("data must be arrays as predict returns them, got None")
    try:
        experiment = posterior(
            predict, model, data, noise=noise, free=free, priors=priors
        )
        if experiment.scale_is_unknown:
            raise ValueError(
                "noise=Gaussian() has no density, its sigma being unknown; make sigma "
                "a parameter: noise=lambda model: Gaussian(model.sigma)"
            )
        free_parameters = experiment.parameters
        variables = UnconstrainedCoordinates.of(free_parameters)
        start = coordinates_inside(
            variables, free_parameters.names, free_parameters.start, "model"
        )
        density = LogDensity(experiment, variables, start)
        # Shapes that disagree raise here, and not inside of a sampler.
        jax.eval_shape(lambda u: density._log_prob(u), start)
    except Exception as error:
        explain_swapped(
            error, predict, model, data, "log_density(predict, model, data)"
        )
        raise
    return density


def _log_mass(parameters: Parameters) -> Array:
    """ln of the mass of Gaussian priors between bounds; of a flat one the width."""
    lower, upper = parameters.lower, parameters.upper
    flat = np.ones(lower.size, bool)
    flat[list(parameters.has_prior)] = False
    for distribution in (*parameters.distributions[0], *parameters.distributions[1]):
        flat[distribution.part] = False
    proper = jnp.isfinite(lower) & jnp.isfinite(upper) & flat
    widths = jnp.where(proper, upper - lower, 1)
    which = np.asarray(parameters.has_prior, int)
    mean, sd = parameters.prior_mean[which], parameters.prior_sd[which]
    sides = parameters.coordinates.turns.around(parameters.prior_mean, (lower, upper))
    lower, upper = ((x[which] - mean) / sd for x in sides)
    # By the tail below, which has digits left where 1 less the one above has none.
    flip = lower > 0
    lower, upper = jnp.where(flip, -upper, lower), jnp.where(flip, -lower, upper)
    masses = ndtr(upper) - ndtr(lower)
    return jnp.sum(jnp.log(widths)) + jnp.sum(jnp.log(masses))


def _finite_or_minus_infinity(value: Array) -> Array:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


@eqx.filter_custom_jvp
def _without_gradient_of_failures(
    consts: Sequence[Array], u: Array, *, function: Callable
) -> Array:
    """`function(consts, u)`; −∞ with derivative 0 where it is not finite."""
    return _finite_or_minus_infinity(function(consts, u))


@_without_gradient_of_failures.def_jvp
def _zero_where_not_finite(primals, tangents, *, function: Callable):
    leaves, structure = jax.tree.flatten(primals)
    every = jax.tree.leaves(tangents, is_leaf=lambda x: x is None)
    moving = [i for i, tangent in enumerate(every) if tangent is not None]

    def along(*some):
        every = list(leaves)
        for i, x in zip(moving, some, strict=True):
            every[i] = x
        return function(*jax.tree.unflatten(structure, every))

    with failures_as_nan():
        value, push = jax.linearize(along, *[leaves[i] for i in moving])
    ok = jnp.isfinite(value)
    # Before the map for reverse mode and after it for forward mode: 0 · NaN is NaN.
    steps = [jnp.where(ok, every[i], 0) for i in moving]
    return _finite_or_minus_infinity(value), jnp.where(ok, push(*steps), 0)
