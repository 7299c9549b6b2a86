"""`FittedData`: data beside the best fit."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ._posterior import Compared, Posterior, likelihoods_of


class FittedData(eqx.Module):
    """Data, what the best fit expects of them, and what is left.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    counts = jax.random.poisson(jax.random.key(0), 50 * jnp.exp(-0.7 * t))
    start = {"height": 40.0, "rate": 1.0}
    fit = ds.fit(decay, start, counts, noise=inference.Poisson())
    (one,) = fit.fitted_data()  # an inference.FittedData
    one.residuals.std()  # near 1
    ```

    **Fields**, each a pytree like the data, but `name`

    - `data`: as given.
    - `expected`, `stderr`: mean (of log-normal data the median) and standard deviation
        of each datum by the best fit; 0 where a likelihood does not say the latter.
    - `residuals`: (data − expected) in standard deviations, of correlated data
        whitened; 0 where masked.
    - `used`: False where masked.
    - `name`: "data", or the part of them.
    """

    data: PyTree[Float[Array, "..."]]
    expected: PyTree[Float[Array, "..."]]
    stderr: PyTree[Float[Array, "..."]]
    residuals: PyTree[Float[Array, "..."]]
    used: PyTree[Bool[Array, "..."]]
    name: str = eqx.field(static=True)


def fitted_data(experiment: Posterior, values: Array) -> tuple[FittedData, ...]:
    """The data sets of an experiment beside the prediction at `values`."""
    assert experiment.data is not None and experiment.layouts is not None
    found = _compared(experiment, values)
    names = likelihoods_of(experiment).labels()
    every = []
    for i, one in enumerate(found.comparisons):
        layout, data = experiment.layouts[i], experiment.data[i]
        mean, spread = one.moments()
        used = jnp.ones(data.shape, bool) if one.used is None else one.used
        shape = layout.unflatten
        every.append(
            FittedData(
                data=shape(data),
                expected=shape(mean),
                stderr=shape(spread),
                residuals=shape(-one.residuals()),
                used=shape(used),
                name=names[i],
            )
        )
    return tuple(every)


@fresh_jit
def _compared(experiment: Posterior, values: Array) -> Compared:
    return experiment.compared(values)
