"""Mean, eccentric and true anomaly, of ellipses and hyperbolas."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._eccentric_anomaly import eccentric_anomaly
from ._universal_anomaly import universal_anomaly


@jax.jit
def true_anomaly(m: Array, e: Array) -> Array:
    """f of M, turn for turn for ellipses; NaN at e = 1, where no M is."""
    closed, inside, outside = _by_conic(e)
    one = jnp.ones_like(m * e)
    h = universal_anomaly(m * one, (outside - 1) * one, 0 * one, one, -one)
    return true_of_eccentric(jnp.where(closed, eccentric_anomaly(m, inside), h), e)


@jax.jit
def mean_anomaly(f: Array, e: Array) -> Array:
    """M of f, turn for turn for ellipses; NaN at e = 1."""
    return mean_of_eccentric(eccentric_of_true(f, e), e)


@jax.jit
def true_of_eccentric(anomaly: Array, e: Array) -> Array:
    """f of E, or of H for hyperbolas: tan(f/2) = √((e + 1)/(e − 1)) tanh(H/2)."""
    closed, inside, outside = _by_conic(e)
    lead = _lead(inside)
    y, x = lead * jnp.sin(anomaly), 1 - lead * jnp.cos(anomaly)
    ellipse = anomaly + 2 * jnp.arctan2(y, x)
    ratio = jnp.sqrt((outside + 1) / (outside - 1))
    hyperbola = 2 * jnp.arctan(ratio * jnp.tanh(anomaly / 2))
    return jnp.where(closed, ellipse, jnp.where(e > 1, hyperbola, jnp.nan))


@jax.jit
def eccentric_of_true(f: Array, e: Array) -> Array:
    """E of f, or H for hyperbolas; NaN beyond their asymptotes and at e = 1."""
    closed, inside, outside = _by_conic(e)
    lead = _lead(inside)
    ellipse = f - 2 * jnp.arctan2(lead * jnp.sin(f), 1 + lead * jnp.cos(f))
    ratio = jnp.sqrt((outside - 1) / (outside + 1))
    # f of an ellipse may be at the pole of the tangent
    tangent = jnp.tan(jnp.where(closed, 0.0, f) / 2)
    hyperbola = 2 * jnp.arctanh(ratio * tangent)
    return jnp.where(closed, ellipse, jnp.where(e > 1, hyperbola, jnp.nan))


def mean_of_eccentric(anomaly: Array, e: Array) -> Array:
    """Kepler's equation: M of E, or of H."""
    closed, inside, outside = _by_conic(e)
    ellipse = anomaly - inside * jnp.sin(anomaly)
    # E of an ellipse may be many turns, whose sinh overflows
    h = jnp.where(closed, 0.0, anomaly)
    return jnp.where(closed, ellipse, outside * jnp.sinh(h) - h)


def _lead(e):
    """e / (1 + √(1 − e²)), by which the true anomaly leads the eccentric one."""
    return e / (1 + jnp.sqrt(1 - e**2))


def _by_conic(e):
    """Whether it is an ellipse, and e for either formula, harmless where not meant."""
    closed = e < 1
    return closed, jnp.where(closed, e, 0.5), jnp.where(e > 1, e, 2.0)
