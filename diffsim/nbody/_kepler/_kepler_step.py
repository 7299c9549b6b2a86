"""Two bodies after a time, on any conic."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._types import Numbers
from ._kepler_arguments import phase
from ._stumpff import universal
from ._universal_anomaly import universal_anomaly
from ._vectors import dot, linear_combination, orbit_units


def kepler_step(
    x: Numbers, v: Numbers, dt: Numbers, gm: Numbers
) -> tuple[Float[Array, "... 3"], Float[Array, "... 3"]]:
    r"""Relative position and velocity of two bodies after `dt`, exactly.

    $$\ddot x = -\mu\,\frac{x}{|x|^3}$$

    ```python
    x, v = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.2, 0.0])
    nbody.kepler_step(x, v, 1e4, 1.0)  # after 1e4, at once
    times = jnp.linspace(0.0, 10.0, 100)
    path, _ = nbody.kepler_step(x, v, times, 1.0)  # shape (100, 3)
    ```

    Ellipses, parabolas, hyperbolas and all between them by one formula without a case
    (universal variables), circles and fall towards the center included: an exact
    symplectic map, as smooth in the energy as the orbits are. It is differentiated as
    the equation that it solves, right in every mode and nesting.

    **Arguments**

    - `x`, `v`: shape (..., 3); length, length / time. One body relative to the other.
    - `dt`: shape (...); of either sign. Whole periods of a bound orbit are taken off.
    - `gm`: shape (...); length³ / time², G times the sum of the masses, not negative;
        with zero the motion is straight, `x + v * dt` to the last digit.

    Leading shapes broadcast.

    **Returns:** x and v after `dt`, shape (..., 3).

    **Good values:** any `dt`; the error is that of rounding the orbit's period, so it
    grows as the number of periods, 1e-16 each.

    **Raises:** `ValueError` for vectors that do not end in 3 and shapes that do not
    broadcast.

    **Limits:** NaN at x = 0 and for negative `gm` (mathematics, convenience), and for a
    line through the center where `gm` is zero (mathematics: the anomaly is infinite).

    References: Stumpff 1959; Danby 1988, chapter 6.9; Wisdom & Hernandez 2015,
    10.1093/mnras/stv1862.
    """
    return _after(*phase(x, v, dt=dt, gm=gm))


@jax.jit
def _after(x, v, dt, gm):
    gm = jnp.where(gm >= 0, gm, jnp.nan)
    length, speed = orbit_units(x, v, gm)
    time = length / speed
    near, slow = x / length[..., None], v / speed[..., None]
    r, sigma = jnp.sqrt(dot(near, near)), dot(near, slow)
    pull = gm / (length * speed * speed)
    beta = 2 * pull / r - dot(slow, slow)
    rest = dt - time * _whole_periods(dt / time, pull, beta)
    arguments = jnp.broadcast_arrays(rest / time, r, sigma, pull, beta)
    g0, g1, g2, g3 = universal(beta, universal_anomaly(*arguments))
    after = r * g0 + sigma * g1 + pull * g2
    # As changes of x and v: a short step loses no digits, and gm = 0 leaves none over.
    dx = linear_combination(-pull * g2 / r, x, rest - time * pull * g3, v)
    dv = linear_combination(-pull * g1 / (r * after * time), x, -pull * g2 / after, v)
    return x + dx, v + dv


def _whole_periods(dt, gm, beta):
    eps = float(jnp.finfo(beta.dtype).eps)
    bound = beta > eps
    # Open orbits get some number that is harmless in every derivative.
    beta, gm = jnp.where(bound, beta, 1.0), jnp.where(bound, gm, 1.0)
    period = 2 * math.pi * gm / (beta * jnp.sqrt(beta))
    # A number of turns is no function of time to differentiate.
    count = jnp.round(jax.lax.stop_gradient(dt / period))
    # A step within half a period keeps its dt to the last digit.
    return jnp.where(bound & (count != 0), count * period, 0.0)
