"""The adaptive method of bodies for which nothing else is asked."""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..simulations import Method
from ._forces import inverse_unit


#: Massive bodies up to which the closest pair sets the scale. Beyond it pairs are close
#: by chance, and orbits lose all digits in some tens of crossing times anyway.
FEW = 64

#: Tolerance by the closest pair: 1.6e-10 is left after 100 periods of two planets and
#: 3.2e-10 after 50 years of the Solar System, at 6 and 7 times the steps of a tolerance
#: of 1e-8, which leaves 1e-3 and 5e-3. Derivatives err by 7.6e-9 of the largest of
#: their row at most, in that of the Sun; at 1.8e-14 by 1.4e-8.
_FEW_TOLERANCE = 1e-14

_MANY_TOLERANCE = 1e-10

#: A separation is rounded with the positions. The error estimate of a step sees about a
#: tenth of it, and no shorter step makes that smaller.
_SEEN = 0.1

#: `max_steps`: 100 periods take 8000 to 15 000 steps.
_MAX_STEPS = 2**16


class ErrorNorm(eqx.Module):
    """Largest error of any body: of positions per `length`, velocities per `speed`."""

    length: Array
    speed: Array

    def __call__(self, error: tuple[Array, Array]) -> Array:
        x, v = error
        largest = jnp.max(jnp.abs(x)) / self.length, jnp.max(jnp.abs(v)) / self.speed
        return jnp.maximum(*largest)


def adaptive_method(
    y: tuple[Array, Array], a: Array, massive: int, softening: Any
) -> Method:
    """Dopri8 at the tolerance and the scales of this state and its accelerations `a`.

    **Arguments**

    - `y`, `a`: component first.
    - `massive`: how many attract; 0 if none does, and no pair is close then.
    - `softening`: of their attraction.
    """
    # Derivatives hold what steps are chosen by, as in Diffrax.
    x, v, a, softening = lax.stop_gradient((*y, a, jnp.asarray(softening)))
    tolerance = _FEW_TOLERANCE if massive <= FEW else _MANY_TOLERANCE
    tolerance = max(tolerance, float(jnp.finfo(x.dtype).eps))
    if 0 < massive <= FEW and x.shape[1] > 1:
        length, speed, away = _closest_pair(x, v, a, massive, softening)
        lost = _SEEN * jnp.finfo(x.dtype).eps * away / length
        tolerance = jnp.where((length > 0) & (lost > tolerance), lost, tolerance)
    else:
        length, speed = _typical(x, v, a)
    length, speed = (jnp.where(s > 0, s, 1) for s in (length, speed))
    controller = diffrax.PIDController(
        rtol=0.0, atol=tolerance, norm=ErrorNorm(length, speed)
    )
    return Method(diffrax.Dopri8(), controller=controller, max_steps=_MAX_STEPS)


def _typical(x, v, a):
    """Root mean squares of the distance from the center and the speed.

    The speed is that of free fall if it is larger, for bodies at rest.
    """
    center = x.mean(1, keepdims=True) if x.shape[1] > 1 else 0.0
    length = _root_mean_square(x - center)
    fall = jnp.sqrt(_root_mean_square(a)) * jnp.sqrt(length)
    return length, jnp.maximum(_root_mean_square(v), fall)


def _root_mean_square(x):
    s = inverse_unit(x)
    return jnp.sqrt(jnp.mean(jnp.square(s * x))) / s


def _closest_pair(x, v, a, massive, softening):
    """Distance and speed of the closest pair, and its distance from the origin.

    The speed is that of free fall if it is larger, for bodies at rest.
    """
    softening = softening.astype(x.dtype)
    s = inverse_unit(x, softening)
    d = s * (x[:, None, :massive] - x[:, :, None])
    own = jnp.eye(x.shape[1], massive, dtype=bool)
    r2 = jnp.where(own, jnp.inf, (d * d).sum(0) + jnp.square(s * softening))
    i, j = jnp.divmod(jnp.argmin(r2), massive)
    length = jnp.sqrt(r2[i, j]) / s
    fall = jnp.sqrt(_size(a[:, i] - a[:, j])) * jnp.sqrt(length)
    away = jnp.maximum(jnp.max(jnp.abs(x[:, i])), jnp.max(jnp.abs(x[:, j])))
    return length, jnp.maximum(_size(v[:, i] - v[:, j]), fall), away


def _size(vector):
    return jnp.sqrt(3.0) * _root_mean_square(vector)
