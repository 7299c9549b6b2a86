"""Mean anomaly and true anomaly, of ellipses and hyperbolas."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._eccentric_anomaly import eccentric_anomaly
from ._universal_anomaly import universal_anomaly


@jax.jit
def true_anomaly(m: Array, e: Array) -> Array:
    """f of M, turn for turn for ellipses; NaN at e = 1, where no M is."""
    closed, inside, outside = _by_conic(e)
    anomaly = eccentric_anomaly(m, inside)
    lead = inside / (1 + jnp.sqrt(1 - inside**2))
    y, x = lead * jnp.sin(anomaly), 1 - lead * jnp.cos(anomaly)
    ellipse = anomaly + 2 * jnp.arctan2(y, x)
    one = jnp.ones_like(m * e)
    h = universal_anomaly(m * one, (outside - 1) * one, 0 * one, one, -one)
    ratio = jnp.sqrt((outside + 1) / (outside - 1))
    hyperbola = 2 * jnp.arctan(ratio * jnp.tanh(h / 2))
    return jnp.where(closed, ellipse, jnp.where(e > 1, hyperbola, jnp.nan))


@jax.jit
def mean_anomaly(f: Array, e: Array) -> Array:
    """M of f, turn for turn for ellipses; NaN at e = 1."""
    closed, inside, outside = _by_conic(e)
    lead = inside / (1 + jnp.sqrt(1 - inside**2))
    anomaly = f - 2 * jnp.arctan2(lead * jnp.sin(f), 1 + lead * jnp.cos(f))
    ellipse = anomaly - inside * jnp.sin(anomaly)
    ratio = jnp.sqrt((outside - 1) / (outside + 1))
    # f of an ellipse may be at the pole of the tangent
    tangent = jnp.tan(jnp.where(closed, 0.0, f) / 2)
    h = 2 * jnp.arctanh(ratio * tangent)
    hyperbola = outside * jnp.sinh(h) - h
    return jnp.where(closed, ellipse, jnp.where(e > 1, hyperbola, jnp.nan))


def _by_conic(e):
    """Whether it is an ellipse, and e for either formula, harmless where not meant."""
    closed = e < 1
    return closed, jnp.where(closed, e, 0.5), jnp.where(e > 1, e, 2.0)
