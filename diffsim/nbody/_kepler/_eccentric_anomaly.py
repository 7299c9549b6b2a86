"""Kepler's equation for ellipses."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._jaxpr._primitives import custom_derivative
from ..._types import Numbers
from ..._validation import check_broadcast, promote_to_common_dtype
from ._kepler_arguments import check_where
from ._starters import correction, elliptic_starter
from ._stumpff import series


def eccentric_anomaly(
    mean_anomaly: Numbers, eccentricity: Numbers
) -> Float[Array, "..."]:
    r"""The E of Kepler's equation, entry by entry:

    $$E - e \sin E = M, \qquad dE = \frac{dM + \sin E\,de}{1 - e\cos E}$$

    the derivative in every mode and nesting, and no iteration is differentiated.

    ```python
    anomaly = nbody.eccentric_anomaly(jnp.linspace(0.0, 2 * jnp.pi, 100), 0.6)
    x, y = jnp.cos(anomaly) - 0.6, 0.8 * jnp.sin(anomaly)  # evenly in time
    jax.grad(nbody.eccentric_anomaly, argnums=1)(1.0, 0.6)  # dE/de
    ```

    **Arguments**

    - `mean_anomaly`: M, any real number: E grows with M, a turn for a turn.
    - `eccentricity`: e, 0 ≤ e < 1; the shapes broadcast.

    **Returns:** E. It satisfies the equation to 4 ulp of max(|E|, 1), and near
    pericenter it is right to a few ulp of itself up to e = 1 − 1e-9.

    **Raises:** `ValueError` for shapes that do not broadcast, and where no e is in
    [0, 1).

    **Limits:** NaN for e outside [0, 1) among others, and where it is traced
    (mathematics: other conics have another equation; `kepler_step` serves them all).

    Guess by Markley 1995, 10.1007/BF00691917, and one step of fifth order.
    """
    m, e = promote_to_common_dtype(mean_anomaly=mean_anomaly, eccentricity=eccentricity)
    check_broadcast(mean_anomaly=m.shape, eccentricity=e.shape)
    bound = "eccentricity must be from 0 to below 1, got {:g}: M is of ellipses here"
    check_where(
        lambda e: ~np.any((e >= 0) & (e < 1)) | np.zeros_like(e, bool), bound, e
    )
    return _eccentric_anomaly(m, e)


@jax.jit
def _eccentric_anomaly(m, e):
    return custom_derivative(_solve, _tangent, *jnp.broadcast_arrays(m, e))[0]


def _solve(m, e):
    """E, and sin E and 1 − cos E, which its derivative needs."""
    e = jnp.where((e >= 0) & (e < 1), e, jnp.nan)
    turns, m = _reduced(m)
    sign, m = jnp.sign(m), jnp.abs(m)
    anomaly = elliptic_starter(m, 1 - e, e, 1.0)
    sine, versine, lag = _trigonometric(anomaly)
    # E − e sin E, written so that nothing cancels near pericenter of e = 1
    f = (1 - e) * anomaly + e * lag - m
    slope = (1 - e) + e * versine
    bend = e * sine
    step = correction(f, slope, bend, e * (1 - versine), -bend)
    anomaly, sine, versine = _moved(anomaly, sine, versine, step)
    high, low = _turn(m.dtype)
    whole = turns * high + (sign * anomaly + turns * low)
    return [whole, sign * sine, versine]


def _tangent(outputs, inputs, tangents):
    (_, sine, versine), (_, e), (dm, de) = outputs, inputs, tangents
    parts = [] if dm is None else [dm]
    parts += [] if de is None else [sine * de]
    change = functools.reduce(jnp.add, parts) / ((1 - e) + e * versine)
    return [change, (1 - versine) * change, sine * change]


def _turn(dtype) -> tuple[float, float]:
    """2π in two parts, of which the first has so few digits that k · first is exact."""
    digits = jnp.finfo(dtype).nmant // 2
    high = math.ldexp(round(math.ldexp(2 * math.pi, digits - 2)), 2 - digits)
    # The last number is 2π less 2π in double precision.
    return high, 2 * math.pi - high + 2.4492935982947064e-16


def _reduced(m):
    """Whole turns k, and m − 2πk to rounding, between −π and π."""
    high, low = _turn(m.dtype)
    turns = jnp.round(m * (1 / (2 * math.pi)))
    return turns, (m - turns * high) - turns * low


def _trigonometric(anomaly):
    """sin E, 1 − cos E and E − sin E on [0, π], each to rounding of itself."""
    beyond = anomaly > math.pi / 2
    # The second number is π less π in double precision.
    supplement = (math.pi - anomaly) + 1.2246467991473532e-16
    x = jnp.where(beyond, supplement, anomaly)
    z = x * x
    lag, versine = x * z * series(3, z), z * series(2, z)
    sine = x - lag
    return (
        sine,
        jnp.where(beyond, 2 - versine, versine),
        jnp.where(beyond, anomaly - sine, lag),
    )


def _moved(anomaly, sine, versine, step):
    """E, sin E and 1 − cos E after a small step, by its sine and cosine to order 5."""
    z = step * step
    small = step * (1 - z / 6 * (1 - z / 20))
    little = z / 2 * (1 - z / 12)
    cosine = 1 - versine
    return (
        anomaly + step,
        sine - sine * little + cosine * small,
        versine + cosine * little + sine * small,
    )
