"""`radial_velocity`, its semi-amplitude, and the mass of the planet behind it.

Without light travel time, which `transit_times(c=...)` has: `_transits.py`.
"""

import math
from typing import Any

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
    not_negative,
    positive,
    promote_to_common_dtype,
)
from ._bodies_arguments import body_number
from ._observables import checked_arguments
from ._sky_positions import OBSERVER, toward_observer


def radial_velocity(
    simulation: Any, state: Any, body: int | str = 0, *, observer: Numbers = OBSERVER
) -> Float[Array, "*time"]:
    r"""Velocity of a body along the line of sight, positive away from the observer.

    $$v_r = -\,v \cdot \hat n,$$

    $\hat n$ the direction to the observer. Of a star with one planet it is
    $K\,[\cos(f + \omega_\star) + e \cos\omega_\star]$ with the star's
    $\omega_\star = \omega + \pi$ and $K = n a \sin i\; m / [(M + m)\sqrt{1 - e^2}]$.

    ```python
    G = nbody.G["au, Msun, day"]
    orbit = nbody.Elements(semi_major_axis=[0.05], inclination=[np.pi / 2])
    bodies = nbody.Bodies.from_elements([1.0, 1e-3], orbit, G=G, names=["star", "b"])
    system = nbody.NBody(bodies, nbody.Gravity(G))
    states = ds.simulate(system, jnp.linspace(0.0, 10.0, 50)).states
    nbody.radial_velocity(system, states, "star") * 1731456.837  # m/s of au/day
    ```

    **Arguments**

    - `simulation`: says which body has which name.
    - `state`: one state, or states with leading axes, `trajectory.states`.
    - `body`: its name or number; the first is the star.
    - `observer`: direction from the system to the observer, of any length. By default
        far down the z axis, so that it is v_z, and orbits of inclination π/2 are seen
        edge-on, as by radvel.

    **Returns:** length / time in the units of the system, of shape (time,) or ().

    **Raises:** `ValueError` for a body that is not there and an observer at (0, 0, 0).

    **Limits:** of the frame of the system: a moving barycenter adds its own. Neither
    light travel time nor relativistic shifts are in it (convenience).
    """
    state = checked_arguments(simulation, state)
    number = body_number(simulation, body, "body")
    v = jnp.asarray(state.velocities)[..., number, :]
    return -jnp.sum(v * toward_observer(observer, v.dtype), axis=-1)


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
    if not is_traced(inclination) and np.any(np.equal(inclination, 0)):
        raise ValueError(
            "inclination must not be 0, where the orbit is face-on and moves the star "
            "across the line of sight alone; edge-on is numpy.pi / 2"
        )
    K, scale, star = _scaled(
        star_mass, period, eccentricity, inclination, G, semi_amplitude=semi_amplitude
    )
    return star * custom_derivative(_mass_ratio, _tangent, K * scale)[0]


def _scaled(star_mass, period, eccentricity, inclination, G, **last):
    """The last argument, m/M / (K (1 + m/M)^(2/3)) at given elements, and M."""
    values = {"star_mass": star_mass, "period": period, "eccentricity": eccentricity}
    values |= {"inclination": inclination, "G": G, **last}
    star, P, e, i, G, other = arrays = promote_to_common_dtype(**values)
    check_broadcast(**{k: a.shape for k, a in zip(values, arrays, strict=True)})
    positive("star_mass", star)
    positive("period", P)
    not_negative("eccentricity", e)
    positive("1 - eccentricity", 1 - e, "a period is of bound orbits")
    for name, value in zip(values, arrays, strict=True):
        finite(name, value)
    speed = jnp.cbrt(2 * math.pi * (G * star / P))
    return other, jnp.sqrt(1 - e * e) / (speed * jnp.sin(i)), star


@jax.jit
def _mass_ratio(s):
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
