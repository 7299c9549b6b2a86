"""`per_datum_gradients`: how each datum pulls at the parameters."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit, reading
from .._types import PyTree
from ._information_factor import value_and_jacobian
from ._posterior import Posterior, posterior


def per_datum_gradients(
    predict: Any, model: PyTree, data: PyTree, *, noise: Any, free: Any = None
) -> Float[Array, "datum parameter"]:
    r"""The gradient of −ln L of each datum by the free parameters at `model`.

    $$g_{ia} = -\partial_a \ln p(d_i \mid \mu_i)$$

    Their sum is the gradient of the loss without priors. One that is far larger than
    the others belongs to a datum that the fit hangs on; their covariance is that of the
    score, and clipped ones make a private descent.

    ```python
    t = jnp.linspace(0.0, 1.0, 5)
    data = jnp.array([0.0, 1.1, 1.9, 3.0, 9.0])  # the last one is off
    given = {"noise": inference.Gaussian(0.5), "free": None}
    model = {"a": 0.0, "b": 4.0}
    line = lambda m: m["a"] + m["b"] * t
    inference.per_datum_gradients(line, model, data, **given)  # shape (5, 2)
    ```

    **Arguments:** `predict`, `model`, `data`, `noise` and `free` of `fit`. Parameters
    are physical values in the order of the names of a fit; data in the order in which
    pytrees are flattened.

    **Returns:** an array (datum, parameter); rows of data that are masked are 0.

    **Raises:** `ValueError` where data are correlated.
    """
    found = posterior(predict, model, data, noise=noise, free=free)
    with reading(found):
        return _gradients(found, found.parameters.start)


@fresh_jit
def _gradients(found: Posterior, values: Array) -> Array:
    def losses(x: Array) -> tuple[Array, None]:
        parts = [one.losses() for one in found.compared(x).comparisons]
        return jnp.concatenate(parts), None

    return value_and_jacobian(losses, values)[1]
