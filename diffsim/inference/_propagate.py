"""`Propagated`: a function of the model with its error bar."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._types import PyTree
from .._validation import function_of
from ._posterior import Posterior


class Propagated(eqx.Module):
    r"""A function f of the model of a fit, with its error bar to first order.

    $$\mathrm{cov}\,f = f'\, C\, f'^T$$

    ```python
    t = jnp.linspace(0.0, 10.0, 50)

    def wave(m):
        return m["sine"] * jnp.sin(2 * t) + m["cosine"] * jnp.cos(2 * t)

    start, noise = {"sine": 1.0, "cosine": 1.0}, inference.Gaussian(0.1)
    fit = ds.fit(wave, start, 2 * jnp.sin(2 * t + 0.3), noise=noise)
    size = fit.propagate(lambda m: jnp.hypot(m["sine"], m["cosine"]))
    print(size)  # an inference.Propagated: 2 ± 0.02
    ```

    **Fields:** `value`, what the function returns of the best model; `stderr`, a pytree
    like it; `covariance`, of all its numbers in order.
    """

    value: PyTree[Any]
    stderr: PyTree[Any]
    covariance: Float[Array, "output output"]

    def __repr__(self) -> str:
        values = jax.tree.leaves(self.value)
        errors = jax.tree.leaves(self.stderr)
        if len(values) == 1 and jnp.ndim(values[0]) == 0:
            return f"{float(values[0]):.6g} ± {float(errors[0]):.2g}"
        return "\n".join(
            f"{jax.tree_util.keystr(path).lstrip('.') or 'value'} = {value} ± {error}"
            for (path, value), error in zip(
                jax.tree_util.tree_flatten_with_path(self.value)[0], errors, strict=True
            )
        )


def propagate(
    fit: Any, experiment: Posterior, function: Callable[[PyTree], PyTree]
) -> Propagated:
    """The value of `function(model)` and its covariance by that of a fit."""
    function_of("function", function, ("model",))
    value, jacobian = _derivative(function, experiment.parameters, fit.values)
    # A parameter that the function does not depend on may be undetermined.
    matters = jnp.any(jacobian != 0, axis=0)
    both = matters[:, None] & matters[None, :]
    known = jnp.where(both, jnp.where(fit.at_bound, 0, fit.covariance), 0)
    known = jnp.where(fit.at_bound[:, None], 0, known)
    covariance = matmul(matmul(jacobian, known), jacobian.T)
    _, unravel = ravel_pytree(value)
    stderr = jnp.sqrt(jnp.diagonal(covariance))
    return Propagated(value, unravel(stderr), covariance)


@fresh_jit
def _derivative(function: Callable[[PyTree], PyTree], parameters: Any, values: Array):
    def flat(x: Array) -> Array:
        return ravel_pytree(function(parameters.model(x)))[0].astype(x.dtype)

    value = jax.tree.map(jnp.asarray, function(parameters.model(values)))
    return value, jax.jacfwd(flat)(values)
