"""Orbits by any habit, resolved to the elements by which motion is computed."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import nan_unless
from ._anomalies import mean_anomaly, true_anomaly, true_of_eccentric
from ._ellipse import (
    ellipse_state,
    mean_of_true_longitude,
    tilted_frame,
)
from ._vectors import planar_angle, planar_length, wrap_angle


#: An orbit is in front of what it surrounds a quarter turn before its ascending node.
_IN_FRONT = -math.pi / 2


class _Ellipse(NamedTuple):
    """Elements that are regular at e = 0 and i = 0, and the node, which is not."""

    a: Array
    h: Array
    k: Array
    inclination: Array
    node: Array
    mean_longitude: Array


def is_by_vector(orbit: Any) -> bool:
    """Whether e and ω, or i and Ω, are given as a vector: these are ellipses."""
    pairs = (
        *(orbit.e_cos_omega, orbit.e_sin_omega),
        *(orbit.sqrt_e_cos_omega, orbit.sqrt_e_sin_omega),
        *(orbit.h, orbit.k, orbit.ix, orbit.iy),
    )
    return any(part is not None for part in pairs)


@jax.jit
def conic_of(orbit: Any, gm: Array) -> dict[str, Array]:
    """The arguments of `Elements`."""
    if is_by_vector(orbit):
        return _conic_of_ellipse(_ellipse_of(orbit, gm))
    a, n = _size(orbit, gm)
    e, node = _or_zero(orbit.eccentricity), _or_zero(orbit.longitude_of_ascending_node)
    omega = _longitude_of_pericenter(orbit, node) - node
    return {
        "semi_major_axis": a,
        "eccentricity": e,
        "inclination": _inclination(orbit, a, e * e, e * jnp.sin(omega)),
        "longitude_of_ascending_node": node,
        "argument_of_pericenter": omega,
        "true_anomaly": _true_anomaly(orbit, e, omega, node, n),
    }


@jax.jit
def vector_state(orbit: Any, gm: Array) -> tuple[Array, Array]:
    """Position and velocity of an orbit by vectors, smooth at e = 0 and i = 0."""
    a, h, k, inclination, node, longitude = _ellipse_of(orbit, gm)
    if orbit.ix is None and orbit.iy is None:
        tilt, c = 2 * jnp.sin(inclination / 2), jnp.cos(inclination / 2)
        ix, iy = tilt * jnp.cos(node), tilt * jnp.sin(node)
    else:
        ix, iy = _or_zero(orbit.ix), _or_zero(orbit.iy)
        c = jnp.sqrt(1 - (ix * ix + iy * iy) / 4)
    ellipse = (a > 0) & (h * h + k * k < 1) & (ix * ix + iy * iy <= 4) & (gm >= 0)
    a, h, k = nan_unless((a, h, k), ellipse)
    return ellipse_state(a, h, k, longitude, tilted_frame(ix, iy, c), gm)


def mean_motion_of(orbit: Any, gm: Array) -> Array:
    """n, by which the mean anomaly grows."""
    return _size(orbit, gm)[1]


def _size(orbit, gm):
    """a and n, by Kepler's third law."""
    if orbit.period is None:
        a = orbit.semi_major_axis
        return a, jnp.sqrt(gm / jnp.abs(a)) / jnp.abs(a)
    period = nan_unless(orbit.period, orbit.period > 0)
    # gm P² is beyond float32 in SI units
    return jnp.cbrt(gm) * jnp.cbrt(period / (2 * math.pi)) ** 2, 2 * math.pi / period


def _ellipse_of(orbit, gm) -> _Ellipse:
    a, n = _size(orbit, gm)
    if orbit.ix is None and orbit.iy is None:
        node = _or_zero(orbit.longitude_of_ascending_node)
    else:
        node = planar_angle(_or_zero(orbit.ix), _or_zero(orbit.iy))
    h, k = _eccentricity_vector(orbit, node)
    e_sin_omega = h * jnp.cos(node) - k * jnp.sin(node)
    inclination = _inclination(orbit, a, h * h + k * k, e_sin_omega)
    longitude = _mean_longitude(orbit, h, k, node, n)
    return _Ellipse(a, h, k, inclination, node, longitude)


def _conic_of_ellipse(ellipse: _Ellipse) -> dict[str, Array]:
    a, h, k, inclination, node, longitude = ellipse
    e, pericenter = planar_length(h, k), planar_angle(k, h)
    return {
        "semi_major_axis": a,
        "eccentricity": e,
        "inclination": inclination,
        "longitude_of_ascending_node": node,
        "argument_of_pericenter": wrap_angle(pericenter - node),
        "true_anomaly": true_anomaly(longitude - pericenter, e),
    }


def _longitude_of_pericenter(orbit, node):
    """ϖ of the body itself, also where that of the star is given."""
    turn = math.pi if orbit.omega_of == "star" else 0.0
    if orbit.longitude_of_pericenter is not None:
        return orbit.longitude_of_pericenter + turn
    return _or_zero(orbit.argument_of_pericenter) + node + turn


def _eccentricity_vector(orbit, node):
    """h = e sin ϖ and k = e cos ϖ of the body itself."""
    sign = -1.0 if orbit.omega_of == "star" else 1.0
    if orbit.h is not None or orbit.k is not None:
        return sign * _or_zero(orbit.h), sign * _or_zero(orbit.k)
    cosine, sine = orbit.e_cos_omega, orbit.e_sin_omega
    if orbit.sqrt_e_cos_omega is not None or orbit.sqrt_e_sin_omega is not None:
        cosine, sine = orbit.sqrt_e_cos_omega, orbit.sqrt_e_sin_omega
        root = planar_length(_or_zero(cosine), _or_zero(sine))
        cosine, sine = root * _or_zero(cosine), root * _or_zero(sine)
    if cosine is None and sine is None:
        e, pericenter = (
            _or_zero(orbit.eccentricity),
            _longitude_of_pericenter(orbit, node),
        )
        return e * jnp.sin(pericenter), e * jnp.cos(pericenter)
    cosine, sine = sign * _or_zero(cosine), sign * _or_zero(sine)
    return (
        sine * jnp.cos(node) + cosine * jnp.sin(node),
        cosine * jnp.cos(node) - sine * jnp.sin(node),
    )


def _inclination(orbit, a, e2, e_sin_omega):
    if orbit.impact_parameter is not None:
        # The distance from the star in front of it; ω of the star is half a turn on.
        apart = a * (1 - e2) / (1 - e_sin_omega)
        return jnp.arccos(orbit.impact_parameter * orbit.star_radius / apart)
    if orbit.ix is None and orbit.iy is None:
        return _or_zero(orbit.inclination)
    return 2 * jnp.arcsin(planar_length(_or_zero(orbit.ix), _or_zero(orbit.iy)) / 2)


def _true_anomaly(orbit, e, omega, node, n):
    if orbit.eccentric_anomaly is not None:
        return true_of_eccentric(orbit.eccentric_anomaly, e)
    if orbit.mean_longitude is not None:
        return true_anomaly(orbit.mean_longitude - node - omega, e)
    if orbit.time_of_transit is not None:
        begin = mean_anomaly(wrap_angle(_IN_FRONT - omega), e)
        return true_anomaly(begin + n * (orbit.epoch - orbit.time_of_transit), e)
    mean = _mean_anomaly(orbit, n)
    return _or_zero(orbit.true_anomaly) if mean is None else true_anomaly(mean, e)


def _mean_longitude(orbit, h, k, node, n):
    if orbit.mean_longitude is not None:
        return orbit.mean_longitude
    if orbit.time_of_transit is not None:
        begin = mean_of_true_longitude(node + _IN_FRONT, h, k)
        return begin + n * (orbit.epoch - orbit.time_of_transit)
    angles = orbit.argument_of_pericenter, orbit.longitude_of_pericenter
    by_angle = orbit.eccentricity is not None or any(a is not None for a in angles)
    given = _longitude_of_pericenter(orbit, node) if by_angle else None
    pericenter = planar_angle(k, h) if given is None else given
    if orbit.eccentric_anomaly is not None:
        anomaly = orbit.eccentric_anomaly
        return pericenter + anomaly - planar_length(h, k) * jnp.sin(anomaly)
    mean = _mean_anomaly(orbit, n)
    if mean is None:
        return mean_of_true_longitude(pericenter + _or_zero(orbit.true_anomaly), h, k)
    return pericenter + mean


def _mean_anomaly(orbit, n):
    """M where it is given, or the time of M = 0; else None."""
    if orbit.time_of_pericenter is not None:
        return n * (orbit.epoch - orbit.time_of_pericenter)
    return orbit.mean_anomaly


def _or_zero(value: Array | None) -> Array:
    # Weakly typed, as a number of Python's: it decides no dtype.
    return jnp.asarray(0.0) if value is None else value
