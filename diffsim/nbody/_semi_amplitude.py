"""Semi-amplitude of a star's radial velocity, and the mass of the planet behind it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._jaxpr._primitives import custom_derivative
from .._types import Numbers
from .._validation import (
    check_broadcast,
    finite,
    is_traced,
    positive,
    promote_to_common_dtype,
)


#: Newton's iterations from above: of any masses the root to 2 ulp.
_ITERATIONS = 8


def semi_amplitude(
    star_mass: Numbers,
    planet_mass: Numbers,
    *,
    period: Numbers,
    eccentricity: Numbers = 0.0,
    inclination: Numbers = math.pi / 2,
    G: Numbers = 1.0,
) -> Float[Array, "..."]:
    r"""Semi-amplitude K of the radial velocity that a planet gives its star.

    $$K = \left(\frac{2\pi G}{P}\right)^{1/3}
      \frac{m \sin i}{(M + m)^{2/3} \sqrt{1 - e^2}}$$

    ```python
    G = nbody.G["au, Msun, day"]
    K = nbody.semi_amplitude(1.0, 9.546e-4, period=4332.6, eccentricity=0.048, G=G)
    K * 1_731_457  # of Jupiter, 12.5 m/s
    ```

    **Arguments**

    - `star_mass`, `planet_mass`: M and m; in Jacobi coordinates M is all mass inside.
    - `period`: P, time.
    - `eccentricity`: e, below 1.
    - `inclination`: i; a quarter turn, edge-on, unless it is given.
    - `G`: that of `Gravity`.

    **Returns:** K, length / time; the shapes broadcast.

    **Raises:** `ValueError` for a period or a mass of the star that is not positive,
        an e outside [0, 1), and numbers that are not finite.
    """
    m, scale, star = _scaled(
        star_mass, period, eccentricity, inclination, G, planet_mass=planet_mass
    )
    share = m / star
    return share / (scale * jnp.cbrt(1 + share) ** 2)


def planet_mass(
    star_mass: Numbers,
    semi_amplitude: Numbers,
    *,
    period: Numbers,
    eccentricity: Numbers = 0.0,
    inclination: Numbers = math.pi / 2,
    G: Numbers = 1.0,
) -> Float[Array, "..."]:
    r"""Mass of the planet that gives its star the semi-amplitude K: a cubic's root.

    $$\frac{(m \sin i)^3}{(M + m)^2} = \frac{P K^3 (1 - e^2)^{3/2}}{2\pi G}$$

    ```python
    G = nbody.G["au, Msun, day"]
    K, period = jnp.array([7.0, 2.5]) / 1_731_457, [75.7, 1201.0]
    masses = nbody.planet_mass(0.87, K, period=period, G=G)
    orbits = nbody.Orbit(period=period, inclination=np.pi / 2, mean_longitude=0.0)
    nbody.Bodies.from_elements([0.87, *masses], orbits, G=G)
    ```

    Smooth in K through zero, for companions of any mass; exact derivatives of all
    orders and in both modes.

    **Arguments**

    - `star_mass`: M; in Jacobi coordinates all mass inside.
    - `semi_amplitude`: K, length / time.
    - `period`: P, time.
    - `eccentricity`: e, below 1.
    - `inclination`: i; a quarter turn, edge-on, unless it is given, and then the
        result is the least mass that gives K.
    - `G`: that of `Gravity`.

    **Returns:** m; the shapes broadcast.

    **Raises:** `ValueError` for a period or a mass of the star that is not positive,
        an e outside [0, 1), numbers that are not finite, and i = 0.
    """
    _check_seen(inclination)
    K, scale, star = _scaled(
        star_mass, period, eccentricity, inclination, G, semi_amplitude=semi_amplitude
    )
    return star * custom_derivative(_found, _tangent, K * scale)[0]


def _scaled(star_mass, period, eccentricity, inclination, G, **last):
    """The last argument, m/M / (K (1 + m/M)^(2/3)) at given elements, and M."""
    given = {"star_mass": star_mass, "period": period, "eccentricity": eccentricity}
    given |= {"inclination": inclination, "G": G, **last}
    star, P, e, i, G, other = arrays = promote_to_common_dtype(**given)
    check_broadcast(**{k: a.shape for k, a in zip(given, arrays, strict=True)})
    positive("star_mass", star)
    positive("period", P)
    _check_bound(e)
    for name, value in zip(given, arrays, strict=True):
        finite(name, value)
    speed = jnp.cbrt(2 * math.pi * (G * star / P))
    return other, jnp.sqrt(1 - e * e) / (speed * jnp.sin(i)), star


def _check_bound(e: Array):
    if is_traced(e):
        return
    known = np.ravel(e)
    unbound = known[(known < 0) | (known >= 1)]
    if unbound.size:
        raise ValueError(
            f"eccentricity must be from 0 to below 1, got {unbound[0]:g}: a period is "
            "of bound orbits"
        )


def _check_seen(inclination: Numbers):
    if not is_traced(inclination) and np.any(np.equal(inclination, 0)):
        raise ValueError(
            "inclination must not be 0, where the orbit is face-on and moves the star "
            "across the line of sight alone; edge-on is numpy.pi / 2"
        )


@jax.jit
def _found(s):
    """The y of y = s (1 + y)^(2/3), odd neither in s nor in y."""
    y = s * (1 + jnp.abs(s)) ** 2
    for _ in range(_ITERATIONS):
        root = jnp.cbrt(1 + y)
        y = y - (y - s * root**2) / (1 - 2 * s / (3 * root))
    return [y]


def _tangent(outputs, inputs, tangents):
    (y,), (s,), (ds,) = outputs, inputs, tangents
    root = jnp.cbrt(1 + y)
    return [root**2 * ds / (1 - 2 * s / (3 * root))]
