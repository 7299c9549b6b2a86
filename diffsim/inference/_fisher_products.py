"""Products of a Fisher information with vectors: derivatives forward and back."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._results import RESULTS
from ._information import information_status, sigma_factor
from ._posterior import Compared, Posterior


@fresh_jit
def information_products(
    found: Posterior, kind: str, rows: Float[Array, "vector parameter"]
) -> tuple[Float[Array, "vector parameter"], RESULTS]:
    """Products of the information for rows, and how the run went.

    Gaussian priors of single entries are left out. What does not depend on the rows is
    run once for all of them.
    """
    values = found.parameters.start
    product = _observed_product if kind == "observed" else _expected_product
    product = functools.partial(product, found.with_expected_information(), values)
    images, seen = jax.vmap(product, out_axes=(0, None))(rows)
    images = images / sigma_factor(found, seen, values) ** 2
    status = information_status(seen, images)
    # A derivative may be finite where the prediction is not: no number is right there.
    images = jnp.where(jnp.asarray(status == RESULTS.successful), images, jnp.nan)
    return images, status


def _expected_product(
    found: Posterior, values: Array, vector: Array
) -> tuple[Array, Compared]:
    """Derivatives of all that the posterior depends on, forward, whitened, and back."""

    def with_change(x: Array) -> tuple[Array, tuple[Array, Compared]]:
        at, change, seen = jax.jvp(found.numbers, (x,), (vector,), has_aux=True)
        return at, (change, seen)

    # The derivative back is that of the run that went forward, which saves another; of
    # the change, an aux, there is none.
    _, pull, (change, seen) = jax.vjp(with_change, values, has_aux=True)
    begin = sum(one.numbers().size for one in seen.comparisons)
    change = change.at[begin : begin + _prior_rows(found)].set(0)
    white, unwhiten = jax.vjp(functools.partial(found.whiten, seen), change)
    return pull(unwhiten(white)[0])[0], seen


def _observed_product(
    found: Posterior, values: Array, vector: Array
) -> tuple[Array, Compared]:
    """The derivative of the gradient of the loss."""

    def loss(x: Array) -> tuple[Array, Compared]:
        seen = found.compared(x)
        total = sum(one.loss() for one in seen.comparisons)
        rows = seen.prior.gaussian[_prior_rows(found) :]
        return jnp.asarray(total + matmul(rows, rows) / 2 + seen.prior.others), seen

    gradient = jax.grad(loss, has_aux=True)
    _, change, seen = jax.jvp(gradient, (values,), (vector,), has_aux=True)
    return change, seen


def _prior_rows(found: Posterior) -> int:
    """Of Gaussian priors of single entries, whose information is a diagonal."""
    return len(found.parameters.has_prior)
