"""`Elements`: a conic by its shape, its orientation, and where the body is."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._results import nan_unless
from ..._types import Numbers
from ..._validation import (
    as_floating,
    check_broadcast,
    positive,
    promote_to_common_dtype,
)
from .._forces import inverse_unit
from ._anomalies import eccentric_of_true, mean_anomaly, true_anomaly
from ._kepler_arguments import (
    GM_HINT,
    check_apart,
    check_conic,
    check_curved,
    check_eccentricity,
    check_finite,
    check_inclination,
    check_names,
    check_where,
    gm_like,
    leaves_of,
    phase,
    warn_of_degrees,
)
from ._vectors import (
    dot,
    linear_combination,
    planar_angle,
    planar_length,
    stack_components,
    unstacked,
    wrap_angle,
)


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

    `Orbit` takes a period, a time of transit, e cos ω and other habits in their place.

    **Arguments**

    - `semi_major_axis`: a, length; negative for hyperbolas. It has to be given.
    - `eccentricity`: e ≥ 0, and above 1 for hyperbolas.
    - `inclination`: i, from 0 to π.
    - `longitude_of_ascending_node`: Ω.
    - `argument_of_pericenter`: ω.
    - `true_anomaly`: f; `Elements.from_mean_anomaly` takes M in its place.
    - `gm`: G times the sum of both masses, for `period` and what else is of time;
        None where nothing asks for it. `elements(system, states)` knows it.
    - `unknown`: nothing; `a`, `e`, `inc`, `P` are answered by the names above.

    Angles are in radians, and what is not given is zero. Numbers or arrays of any
    shapes that broadcast; the leaves have the common one. Where all of Ω, ω and f are
    beyond 2π a warning asks whether they are degrees.

    **Raises:** `ValueError` for shapes that do not broadcast, a negative e, an a of the
    wrong sign, an i outside [0, π], and an f beyond the asymptotes of a hyperbola;
    `TypeError` for the short names of other programs, with the long one.

    **Limits:** no parabolas, whose a is infinite (mathematics). At e = 0 and i = 0 the
    angles ω and Ω are arbitrary, and e, i and the angles have no derivative by the
    state: zero is taken, which means nothing (mathematics); `NonsingularElements` has
    neither.
    """

    semi_major_axis: Float[Array, "*shape"]
    eccentricity: Float[Array, "*shape"]
    inclination: Float[Array, "*shape"]
    longitude_of_ascending_node: Float[Array, "*shape"]
    argument_of_pericenter: Float[Array, "*shape"]
    true_anomaly: Float[Array, "*shape"]
    gm: Float[Array, "*shape"] | None

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
        gm: Numbers | None = None,
        **unknown: Any,
    ):
        check_names("Elements", unknown)
        values = {
            "semi_major_axis": semi_major_axis,
            "eccentricity": eccentricity,
            "inclination": inclination,
            "longitude_of_ascending_node": longitude_of_ascending_node,
            "argument_of_pericenter": argument_of_pericenter,
            "true_anomaly": true_anomaly,
        }
        if gm is not None:
            values["gm"] = positive("gm", gm, GM_HINT)
        self.gm = None
        for name, leaf in leaves_of(values).items():
            setattr(self, name, leaf)
        check_inclination(self.inclination)
        warn_of_degrees(
            longitude_of_ascending_node=self.longitude_of_ascending_node,
            argument_of_pericenter=self.argument_of_pericenter,
            true_anomaly=self.true_anomaly,
        )
        check_eccentricity(self.eccentricity)
        check_conic(self.semi_major_axis, self.eccentricity, self.true_anomaly)

    @classmethod
    def from_mean_anomaly(
        cls, mean_anomaly: Numbers, *, eccentricity: Numbers = 0.0, **others: Numbers
    ) -> "Elements":
        """Elements with f from the mean anomaly M; `others` as in `Elements`.

        M is that of n t since pericenter, n = √(GM/|a|³), and of any sign and size;
        of hyperbolas as well, where M = e sinh H − H.

        **Raises:** `ValueError` for e = 1, whose pericenter passage has no n.
        """
        if "true_anomaly" in others:
            raise TypeError("true_anomaly is in mean_anomaly; leave one of them out")
        m, e = promote_to_common_dtype(
            mean_anomaly=mean_anomaly, eccentricity=eccentricity
        )
        check_curved(e)
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

    @classmethod
    def from_state(cls, x: Numbers, v: Numbers, gm: Numbers) -> "Elements":
        """Osculating elements: the orbit through a state, as `state` has it.

        ```python
        orbit = nbody.Elements.from_state([1.0, 0, 0], [0, 1.2, 0], gm=1.0)
        orbit.eccentricity  # 0.44
        ```

        **Arguments**

        - `x`, `v`: shape (..., 3); of one body relative to the other.
        - `gm`: shape (...); G times the sum of both masses, positive.

        **Returns:** `Elements` of shape (...). Ω is 0 for an orbit in the plane of x
        and y, and ω is 0 for a circle; ω and f are from −π to π, Ω as well.

        **Raises:** `ValueError` for a gm that is not positive and two bodies in one
            place.

        **Limits:** a fall through the center has no plane (mathematics).
        """
        x, v, gm = phase(x, v, gm=gm)
        positive("gm", gm, GM_HINT)
        check_apart(x)
        return cls(**_elements(x, v, gm))

    @property
    def mean_anomaly(self) -> Float[Array, "*shape"]:
        """M, which grows evenly in time, by √(GM/|a|³)."""
        return mean_anomaly(self.true_anomaly, self.eccentricity)

    @property
    def eccentric_anomaly(self) -> Float[Array, "*shape"]:
        """E of M = E − e sin E; of hyperbolas the H of M = e sinh H − H."""
        return eccentric_of_true(self.true_anomaly, self.eccentricity)

    @property
    def longitude_of_pericenter(self) -> Float[Array, "*shape"]:
        """ϖ = Ω + ω."""
        return self.longitude_of_ascending_node + self.argument_of_pericenter

    @property
    def mean_longitude(self) -> Float[Array, "*shape"]:
        """λ = Ω + ω + M, which circles have as well."""
        return self.longitude_of_pericenter + self.mean_anomaly

    def mean_motion(self, gm: Numbers | None = None) -> Float[Array, "..."]:
        """n = √(GM/|a|³), by which M grows; `gm` where the elements hold none."""
        return self._rate("mean_motion", gm)

    def period(self, gm: Numbers | None = None) -> Float[Array, "..."]:
        """2π/n; `gm` where the elements hold none.

        **Raises:** `ValueError` where no orbit is bound. NaN for those that are not,
        and where they are traced.
        """
        bound = "period is of bound orbits, got semi_major_axis {:g}; take mean_motion"
        check_where(lambda a: (a <= 0) & np.all(a <= 0), bound, self.semi_major_axis)
        period = 2 * np.pi / self._rate("period", gm)
        return jnp.where(self.semi_major_axis > 0, period, jnp.nan)

    def time_of_pericenter(
        self, gm: Numbers | None = None, *, time: Numbers = 0.0
    ) -> Float[Array, "..."]:
        """The passage of pericenter that is nearest to `time`, of these elements.

        Of f within half a turn, as `elements` returns it. `gm` as in `period`.
        """
        return as_floating("time", time) - self.mean_anomaly / self._rate(
            "time_of_pericenter", gm
        )

    def _rate(self, wanted: str, gm: Numbers | None) -> Array:
        gm, size = self._with_gm(wanted, gm), jnp.abs(self.semi_major_axis)
        return jnp.sqrt(gm / size) / size

    def _with_gm(self, wanted: str, gm: Numbers | None) -> Array:
        if gm is None:
            gm = self.gm
        if gm is None:
            raise ValueError(f"{wanted} needs gm, G times the sum of both masses")
        return gm_like(gm, {"semi_major_axis": self.semi_major_axis})

    def state(
        self, gm: Numbers | None = None
    ) -> tuple[Float[Array, "... 3"], Float[Array, "... 3"]]:
        """Position and velocity relative to the other body, shape (..., 3).

        **Arguments:** `gm`, shape (...): G times the sum of both masses; None is the
        one that the elements hold.

        **Raises:** `ValueError` for e = 1, a fall through the center by a finite a, and
            for elements that are not finite.
        """
        check_finite(vars(self))
        check_curved(self.eccentricity)
        return _state(self, self._with_gm("state", gm))


_ANGLES = ("longitude_of_ascending_node", "argument_of_pericenter")


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
    anomaly = planar_angle(radial, transverse)
    hx, hy, hz = unstacked(momentum)
    node = planar_angle(-hy, hx)
    to_node = stack_components(jnp.cos(node), jnp.sin(node), jnp.zeros_like(node))
    ahead = jnp.cross(momentum, to_node) / jnp.sqrt(h2)[..., None]
    latitude = jnp.arctan2(dot(x, ahead), dot(x, to_node))
    return {
        "semi_major_axis": 1 / (2 / r - dot(v, v) / gm) / s,
        "eccentricity": planar_length(radial, transverse),
        "inclination": jnp.arctan2(planar_length(hx, hy), hz),
        "longitude_of_ascending_node": node,
        "argument_of_pericenter": wrap_angle(latitude - anomaly),
        "true_anomaly": anomaly,
    }
