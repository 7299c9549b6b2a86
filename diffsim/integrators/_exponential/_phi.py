r"""$\varphi_0 = e^z$, $\varphi_{k+1}(z) = (\varphi_k(z) - 1/k!)/z$."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


#: Terms of the series for |z| ≤ 1: the next one is below 1e-17 of the sum.
_TERMS = 18


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def phi_functions(z: Array, order: int) -> list[Array]:
    """φ_0 to φ_order: by series near zero, where the quotients would cancel.

    Either recursion loses no digit where it is used: downwards for |z| ≤ 1, upwards
    beyond.
    """
    small = jnp.abs(z) <= 1
    near = _series(jnp.where(small, z, 0), order)
    far = _quotients(jnp.where(small, 1, z), order)
    return [jnp.where(small, a, b) for a, b in zip(near, far, strict=True)]


@phi_functions.defjvp
def _slopes(order, primals, tangents):
    """φ_k' = φ_k − k φ_{k+1}."""
    (z,), (step,) = primals, tangents
    phi = phi_functions(z, order + 1)
    slopes = [phi[k] - k * phi[k + 1] for k in range(order + 1)]
    return phi[:-1], [step * slope for slope in slopes]


def _series(z: Array, order: int) -> list[Array]:
    weights = [1 / math.factorial(j + order) for j in range(_TERMS, -1, -1)]

    # A loop, for it is written out again in every derivative.
    def horner(total, weight):
        return total * z + weight, None

    weights = jnp.asarray(np.array(weights), z.dtype)
    phi = [jax.lax.scan(horner, jnp.zeros_like(z), weights)[0]]
    for k in range(order - 1, -1, -1):
        phi.append(phi[-1] * z + 1 / math.factorial(k))
    return phi[::-1]


def _quotients(z: Array, order: int) -> list[Array]:
    phi = [jnp.exp(z)]
    for k in range(order):
        phi.append((phi[-1] - 1 / math.factorial(k)) / z)
    return phi
