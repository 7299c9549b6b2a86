"""Motion on ellipses by elements that are regular at circles and at the plane."""

import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._primitives import custom_derivative
from ._eccentric_anomaly import eccentric_anomaly
from ._vectors import linear_combination, stack_components


def ellipse_state(a, h, k, mean_longitude, frame, gm) -> tuple[Array, Array]:
    """Position and velocity, shape (..., 3), in the plane of the two axes `frame`."""
    longitude = eccentric_longitude(mean_longitude, h, k)
    sine, cosine = jnp.sin(longitude), jnp.cos(longitude)
    xx, xy, yy = ellipse_matrix(h, k)
    r = a * (1 - k * cosine - h * sine)
    # n a² / r; gm a is beyond float32 in cgs units
    speed = jnp.sqrt(gm / a) * (a / r)
    along, across = frame
    ahead, aside = xx * cosine + xy * sine - k, xy * cosine + yy * sine - h
    x = linear_combination(a * ahead, along, a * aside, across)
    ahead, aside = xy * cosine - xx * sine, yy * cosine - xy * sine
    return x, linear_combination(speed * ahead, along, speed * aside, across)


def ellipse_matrix(h: Array, k: Array) -> tuple[Array, Array, Array]:
    """The ellipse as a matrix that acts on a circle: its entries xx, xy, yy."""
    b = 1 / (1 + jnp.sqrt(1 - h * h - k * k))
    return 1 - h * h * b, h * k * b, 1 - k * k * b


def tilted_frame(ix: Array, iy: Array, c: Array) -> tuple[Array, Array]:
    """Axes of the orbit's plane: those of x and y, tilted without a turn.

    `c` is cos(i/2), of ix = 2 sin(i/2) cos Ω and iy = 2 sin(i/2) sin Ω.
    """
    cross = ix * iy / 2
    return stack_components(1 - iy * iy / 2, cross, -iy * c), stack_components(
        cross, 1 - ix * ix / 2, ix * c
    )


def mean_longitude_at(px: Array, py: Array, h: Array, k: Array) -> Array:
    """λ at the place (px, py), in semi-major axes, seen from the center of mass."""
    xx, xy, yy = ellipse_matrix(h, k)
    px, py = px + k, py + h
    # The inverse of the matrix, whose determinant is √(1 − e²) > 0.
    cosine, sine = yy * px - xy * py, xx * py - xy * px
    circle = jnp.hypot(sine, cosine)
    return jnp.arctan2(sine, cosine) + (h * cosine - k * sine) / circle


def mean_of_true_longitude(longitude: Array, h: Array, k: Array) -> Array:
    """λ of the true longitude Ω + ω + f."""
    sine, cosine = jnp.sin(longitude), jnp.cos(longitude)
    r = (1 - h * h - k * k) / (1 + k * cosine + h * sine)
    return mean_longitude_at(r * cosine, r * sine, h, k)


def eccentric_longitude(mean: Array, h: Array, k: Array) -> Array:
    r"""The F of $\lambda = F + h\cos F - k\sin F$.

    Its value is found by e and ϖ, which have no derivative at e = 0; F itself has one.
    """
    return custom_derivative(_found, _tangent, *jnp.broadcast_arrays(mean, h, k))[0]


def _found(mean, h, k):
    e = jnp.hypot(h, k)
    pericenter = jnp.arctan2(h, k)
    return [pericenter + eccentric_anomaly(mean - pericenter, e)]


def _tangent(outputs, inputs, tangents):
    (longitude,), (_, h, k) = outputs, inputs
    sine, cosine = jnp.sin(longitude), jnp.cos(longitude)
    terms = zip((1.0, -cosine, sine), tangents, strict=True)
    change = sum(a * t for a, t in terms if t is not None)
    return [change / (1 - k * cosine - h * sine)]
