"""`Elements`: a conic by its shape, its orientation, and where the body is."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._results import nan_unless, should_return_nan
from ..._types import Numbers
from ..._validation import (
    check_broadcast,
    check_not_negative,
    check_positive,
    is_traced,
    promote_to_common_dtype,
)
from .._forces import inverse_unit
from ._anomalies import mean_anomaly, true_anomaly
from ._kepler_arguments import (
    GM_HINT,
    check_inclination,
    check_named,
    phase,
    warn_of_degrees,
)
from ._vectors import dot, linear_combination, stack_components, unstacked, wrap_angle


class Elements(eqx.Module):
    r"""Keplerian elements (a, e, i, Ω, ω, f) of ellipses and hyperbolas.

    $$r = \frac{a(1 - e^2)}{1 + e\cos f}$$

    at the angle ω + f from the ascending node, in a plane of inclination i whose node
    is at the angle Ω from the x axis.

    ```python
    mars = nbody.Elements(semi_major_axis=1.524, eccentricity=0.093)
    x, v = mars.state(gm=1.0)  # at pericenter, relative to the Sun: shape (3,)

    shape = {"semi_major_axis": [1.0, 5.2], "eccentricity": [0.017, 0.048]}
    nbody.Elements.from_mean_anomaly([0.3, 1.2], **shape)  # two planets
    ```

    **Arguments**

    - `semi_major_axis`: a, length; negative for hyperbolas. It has to be given.
    - `eccentricity`: e ≥ 0, and above 1 for hyperbolas.
    - `inclination`: i, from 0 to π.
    - `longitude_of_ascending_node`: Ω.
    - `argument_of_pericenter`: ω.
    - `true_anomaly`: f; `Elements.from_mean_anomaly` takes M in its place.
    - `unknown`: nothing; `a`, `e`, `inc`, `P` are answered by the names above.

    Angles are in radians, and what is not given is zero. Numbers or arrays of any
    shapes that broadcast; the leaves have the common one. Where all of Ω, ω and f are
    beyond 2π a warning asks whether they are degrees.

    **Raises:** `ValueError` for shapes that do not broadcast, a negative e, an a of the
    wrong sign, an i outside [0, π], and an f beyond the asymptotes of a hyperbola;
    `TypeError` for the short names of other programs, with the long one.

    **Limits:** no parabolas, whose a is infinite (mathematics). At e = 0 and i = 0 the
    angles ω and Ω are arbitrary, and the elements have no derivative by the state: what
    comes there means nothing (mathematics); `NonsingularElements` has neither.
    """

    semi_major_axis: Float[Array, "*shape"]
    eccentricity: Float[Array, "*shape"]
    inclination: Float[Array, "*shape"]
    longitude_of_ascending_node: Float[Array, "*shape"]
    argument_of_pericenter: Float[Array, "*shape"]
    true_anomaly: Float[Array, "*shape"]

    references: ClassVar[tuple[str, ...]] = ("10.1017/CBO9781139174817",)

    def __init__(
        self,
        *,
        semi_major_axis: Any = None,
        eccentricity: Numbers = 0.0,
        inclination: Numbers = 0.0,
        longitude_of_ascending_node: Numbers = 0.0,
        argument_of_pericenter: Numbers = 0.0,
        true_anomaly: Numbers = 0.0,
        **unknown: Any,
    ):
        check_named(unknown, semi_major_axis)
        given = {
            "semi_major_axis": semi_major_axis,
            "eccentricity": eccentricity,
            "inclination": inclination,
            "longitude_of_ascending_node": longitude_of_ascending_node,
            "argument_of_pericenter": argument_of_pericenter,
            "true_anomaly": true_anomaly,
        }
        for name, leaf in leaves_of(given).items():
            setattr(self, name, leaf)
        check_inclination(self.inclination)
        warn_of_degrees(
            longitude_of_ascending_node=self.longitude_of_ascending_node,
            argument_of_pericenter=self.argument_of_pericenter,
            true_anomaly=self.true_anomaly,
        )
        _check_conic(self.semi_major_axis, self.eccentricity)
        _check_reached(self.true_anomaly, self.eccentricity)

    @classmethod
    def from_mean_anomaly(
        cls, mean_anomaly: Numbers, *, eccentricity: Numbers = 0.0, **others: Numbers
    ) -> "Elements":
        """Elements with f from the mean anomaly M; `others` as in `Elements`.

        M is that of n t since pericenter, n = √(GM/|a|³), and of any sign and size.
        """
        m, e = promote_to_common_dtype(
            mean_anomaly=mean_anomaly, eccentricity=eccentricity
        )
        check_broadcast(mean_anomaly=m.shape, eccentricity=e.shape)
        e = jnp.broadcast_to(e, np.broadcast_shapes(m.shape, e.shape))
        f = true_anomaly(m, e)
        if any(name in others for name in _ANGLES):
            return cls(eccentricity=e, true_anomaly=f, **others)
        # M grows with time: alone it does not tell whether angles are in degrees.
        orbit = cls(eccentricity=e, **others)
        f = jnp.broadcast_to(f, orbit.true_anomaly.shape)
        f = f.astype(orbit.true_anomaly.dtype)
        return eqx.tree_at(lambda orbit: orbit.true_anomaly, orbit, f)

    @property
    def mean_anomaly(self) -> Float[Array, "*shape"]:
        """M, which grows evenly in time, by √(GM/|a|³)."""
        return mean_anomaly(self.true_anomaly, self.eccentricity)

    def state(self, gm: Numbers) -> tuple[Float[Array, "... 3"], Float[Array, "... 3"]]:
        """Position and velocity relative to the other body, shape (..., 3).

        **Arguments:** `gm`, shape (...): G times the sum of both masses.

        **Raises:** `ValueError` for e = 1, a fall through the center by a finite a.
        """
        _check_curved(self.eccentricity)
        gm, _ = promote_to_common_dtype(gm=gm, elements=self.semi_major_axis)
        check_broadcast(gm=gm.shape, elements=self.semi_major_axis.shape)
        check_not_negative("gm", gm, GM_HINT)
        return _state(self, gm)


_ANGLES = ("longitude_of_ascending_node", "argument_of_pericenter")


def elements(x: Numbers, v: Numbers, gm: Numbers) -> Elements:
    """The orbit through a state: `Elements.state` backwards.

    ```python
    state = ds.simulate(problems.kepler(eccentricity=0.5), 5.0).states
    x, v = (a[1] - a[0] for a in (state.positions, state.velocities))
    nbody.elements(x, v, gm=1.0).eccentricity  # 0.5
    ```

    **Arguments**

    - `x`, `v`: shape (..., 3); of one body relative to the other.
    - `gm`: shape (...); G times the sum of both masses, positive.

    **Raises:** `ValueError` for a gm that is not positive.

    **Returns:** `Elements` of shape (...). Ω is 0 for an orbit in the plane of x and y,
    and ω is 0 for a circle; ω and f are from −π to π, Ω as well.

    **Limits:** as `Elements`; a fall through the center has no plane (mathematics).
    """
    x, v, gm = phase(x, v, gm=gm)
    check_positive("gm", gm, GM_HINT)
    return Elements(**_elements(x, v, gm))


def _is_unchecked(*values: Array) -> bool:
    """Whether values are unknown, or a failure is to be NaN: there is no such state."""
    return should_return_nan(None) or any(map(is_traced, values))


def _check_conic(semi_major_axis: Array, eccentricity: Array):
    if _is_unchecked(semi_major_axis, eccentricity):
        return
    a, e = np.ravel(semi_major_axis), np.ravel(eccentricity)
    if np.any(e < 0):
        raise ValueError(
            f"eccentricity must not be negative, got {np.min(e)}; turn "
            "argument_of_pericenter by pi instead"
        )
    # An orbit that falls through the center has e = 1, to rounding.
    rounding = np.finfo(e.dtype).eps ** 0.5
    wrong = a * (1 - e) < -rounding * np.abs(a)
    if np.any(wrong):
        raise ValueError(
            "semi_major_axis must be positive below eccentricity 1 and negative above, "
            f"got {a[wrong][0]} at eccentricity {e[wrong][0]}"
        )


def _check_reached(anomaly: Array, eccentricity: Array):
    if _is_unchecked(anomaly, eccentricity):
        return
    f, e = np.ravel(anomaly), np.ravel(eccentricity)
    beyond = (e > 1) & (1 + e * np.cos(f) <= 0)
    if np.any(beyond):
        limit = np.arccos(-1 / e[beyond][0])
        raise ValueError(
            f"true_anomaly must lie within {limit:.6g} of pericenter at eccentricity "
            f"{e[beyond][0]}, between the asymptotes, got {f[beyond][0]}"
        )


def _check_curved(eccentricity: Array):
    if not is_traced(eccentricity) and np.any(np.equal(eccentricity, 1)):
        raise ValueError(
            "eccentricity must not be 1, where a finite semi_major_axis is a fall "
            "through the center and a parabola has none; give the position and "
            "velocity themselves"
        )


def leaves_of(given: dict[str, Any]) -> dict[str, Array]:
    """Numbers as floating arrays of one dtype and shape."""
    arrays = promote_to_common_dtype(**given)
    check_broadcast(**{k: a.shape for k, a in zip(given, arrays, strict=True)})
    return dict(zip(given, jnp.broadcast_arrays(*arrays), strict=True))


@jax.jit
def _state(orbit, gm):
    e, f, a = orbit.eccentricity, orbit.true_anomaly, orbit.semi_major_axis
    conic = (e >= 0) & (a * (1 - e) > 0) & (1 + e * jnp.cos(f) > 0)
    orbit = nan_unless(orbit, conic & (gm >= 0))
    e, f = orbit.eccentricity, orbit.true_anomaly
    p = orbit.semi_major_axis * (1 - e * e)
    r, speed = p / (1 + e * jnp.cos(f)), jnp.sqrt(gm / p)
    along, across = _plane(orbit)
    x = linear_combination(r * jnp.cos(f), along, r * jnp.sin(f), across)
    v = linear_combination(-speed * jnp.sin(f), along, speed * (e + jnp.cos(f)), across)
    return x, v


def _plane(orbit):
    """Unit vectors to pericenter, and a right angle ahead of it in the orbit."""
    i, omega = orbit.inclination, orbit.argument_of_pericenter
    node = orbit.longitude_of_ascending_node
    to_node = stack_components(jnp.cos(node), jnp.sin(node), jnp.zeros_like(node))
    rise = jnp.cos(i)
    ahead = stack_components(-jnp.sin(node) * rise, jnp.cos(node) * rise, jnp.sin(i))
    along = linear_combination(jnp.cos(omega), to_node, jnp.sin(omega), ahead)
    across = linear_combination(-jnp.sin(omega), to_node, jnp.cos(omega), ahead)
    return along, across


@jax.jit
def _elements(x, v, gm):
    s = inverse_unit(x)
    x, gm = s * x, s * gm
    r, sigma = jnp.sqrt(dot(x, x)), dot(x, v)
    momentum = jnp.cross(x, v)
    h2 = dot(momentum, momentum)
    p = h2 / gm
    # e cos f and e sin f
    radial, transverse = p / r - 1, jnp.sqrt(p / gm) * sigma / r
    anomaly = jnp.arctan2(transverse, radial)
    hx, hy, hz = unstacked(momentum)
    planar = (hx == 0) & (hy == 0)
    node = jnp.arctan2(jnp.where(planar, 0.0, hx), jnp.where(planar, 1.0, -hy))
    to_node = stack_components(jnp.cos(node), jnp.sin(node), jnp.zeros_like(node))
    ahead = jnp.cross(momentum, to_node) / jnp.sqrt(h2)[..., None]
    latitude = jnp.arctan2(dot(x, ahead), dot(x, to_node))
    return {
        "semi_major_axis": 1 / (2 / r - dot(v, v) / gm) / s,
        "eccentricity": jnp.hypot(radial, transverse),
        "inclination": jnp.arctan2(jnp.hypot(hx, hy), hz),
        "longitude_of_ascending_node": node,
        "argument_of_pericenter": wrap_angle(latitude - anomaly),
        "true_anomaly": anomaly,
    }
