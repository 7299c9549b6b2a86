"""`Orbit`: a conic by the elements that one is used to."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._results import nan_unless
from ..._types import Numbers
from ..._validation import (
    check_broadcast,
    finite,
    is_traced,
    positive,
    promote_to_common_dtype,
    scalar,
)
from ._anomalies import mean_anomaly, true_anomaly, true_of_eccentric
from ._elements import Elements
from ._kepler_arguments import (
    GM_HINT,
    TURNS,
    check_dates,
    check_finite,
    check_names,
    check_orbit,
    check_together,
    check_where,
    gm_like,
    warn_of_degrees,
)
from ._nonsingular_elements import (
    ellipse_state,
    mean_of_true_longitude,
    tilted_frame,
)
from ._vectors import planar_angle, planar_length, wrap_angle


class Orbit(eqx.Module):
    r"""An orbit by any habit: a period, a time of transit, √e cos ω and others.

    $$a^3 = GM\,(P/2\pi)^2, \qquad M = 2\pi\,(t - t_p)/P, \qquad
      f = -\tfrac\pi2 - \omega \text{ in transit}$$

    What is given stays as it is given: a fit of an `Orbit` is one in its parameters.
    GM, which a period needs, comes when `Bodies.from_elements` knows the masses.

    ```python
    orbits = nbody.Orbit(
        period=[10.338, 13.339],
        sqrt_e_cos_omega=[0.2, 0.0],
        sqrt_e_sin_omega=[0.1, 0.0],
        omega_of="star",
        inclination=np.pi / 2,
        time_of_transit=[1.9, 8.1],
    )
    G = nbody.G["au, Msun, day"]
    nbody.Bodies.from_elements([0.97, 3e-5, 2e-5], orbits, G=G, coordinates="jacobi")
    nbody.Orbit(period=365.25, eccentricity=0.017).elements(G).semi_major_axis  # 1
    ```

    **Arguments**

    One way to say each of four things:

    - size: `period`, a time, or `semi_major_axis`, a length, negative for hyperbolas.
    - shape: `eccentricity` with `argument_of_pericenter` ω or `longitude_of_pericenter`
        ϖ = Ω + ω; or `e_cos_omega`, `e_sin_omega`; or `sqrt_e_cos_omega`,
        `sqrt_e_sin_omega`; or `k`, `h`, which are e cos ϖ, e sin ϖ.
    - orientation: `inclination`, or `impact_parameter` in units of `star_radius`, a
        length; and `longitude_of_ascending_node`. Or `ix`, `iy`, which are
        2 sin(i/2) cos Ω, 2 sin(i/2) sin Ω.
    - place at the epoch: `true_anomaly`, `mean_anomaly`, `eccentric_anomaly`,
        `mean_longitude` λ = ϖ + M, `time_of_pericenter`, or `time_of_transit`, of the
        conjunction in front of the star, seen from z = −∞; both times are those of any
        one passage.

    - `epoch`: the time at which the body is there, `t0` of the system. A number, and no
        parameter.
    - `omega_of`: "planet", as in REBOUND and `Elements`, or "star", half a turn on, as
        in radvel, exoplanet and batman; of ω and ϖ in every form.
    - `unknown`: nothing; `P`, `tc`, `secosw` and others are answered by names above.

    Angles are in radians. What is not given is zero; with e and ω as a vector a place
    has to be given. Numbers or arrays of shapes that broadcast, one entry an orbit.

    **Good values:** `e_cos_omega`, `e_sin_omega` or `h`, `k` with `mean_longitude` or
    `time_of_transit` for nearly circular orbits, exact and smooth at e = 0. The forms
    with √e have a uniform prior in e, and at e = 0 no slope: the first derivative is
    zero there and the second undefined, so start a fit beside it.

    **Raises:** `TypeError` for two ways to say one thing, none to say the size, and
    other names; `ValueError` for values that no orbit has: a period that is not
    positive or of an unbound orbit, e = 1, e² of vectors from 1 on, dates that float32
    does not hold, and those that are not finite.

    **Limits:** vectors and a period are of ellipses (mathematics); NaN where such
    values are traced. At e = 0 the anomalies and `time_of_pericenter` beside a vector
    count from ω = 0, without a derivative by its direction (mathematics). The
    conjunction is the middle of a transit for edge-on and for circular orbits
    (mathematics), and light travels at once (convenience).
    """

    period: Float[Array, "*#shape"] | None
    semi_major_axis: Float[Array, "*#shape"] | None
    eccentricity: Float[Array, "*#shape"] | None
    argument_of_pericenter: Float[Array, "*#shape"] | None
    longitude_of_pericenter: Float[Array, "*#shape"] | None
    e_cos_omega: Float[Array, "*#shape"] | None
    e_sin_omega: Float[Array, "*#shape"] | None
    sqrt_e_cos_omega: Float[Array, "*#shape"] | None
    sqrt_e_sin_omega: Float[Array, "*#shape"] | None
    h: Float[Array, "*#shape"] | None
    k: Float[Array, "*#shape"] | None
    inclination: Float[Array, "*#shape"] | None
    impact_parameter: Float[Array, "*#shape"] | None
    star_radius: Float[Array, "*#shape"] | None
    longitude_of_ascending_node: Float[Array, "*#shape"] | None
    ix: Float[Array, "*#shape"] | None
    iy: Float[Array, "*#shape"] | None
    true_anomaly: Float[Array, "*#shape"] | None
    mean_anomaly: Float[Array, "*#shape"] | None
    eccentric_anomaly: Float[Array, "*#shape"] | None
    mean_longitude: Float[Array, "*#shape"] | None
    time_of_pericenter: Float[Array, "*#shape"] | None
    time_of_transit: Float[Array, "*#shape"] | None
    epoch: float = eqx.field(static=True)
    omega_of: str = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = (
        "10.1017/CBO9781139174817",
        "10.1088/1538-3873/aaaaa8",
    )

    def __init__(
        self,
        *,
        period: Numbers | None = None,
        semi_major_axis: Numbers | None = None,
        eccentricity: Numbers | None = None,
        argument_of_pericenter: Numbers | None = None,
        longitude_of_pericenter: Numbers | None = None,
        e_cos_omega: Numbers | None = None,
        e_sin_omega: Numbers | None = None,
        sqrt_e_cos_omega: Numbers | None = None,
        sqrt_e_sin_omega: Numbers | None = None,
        h: Numbers | None = None,
        k: Numbers | None = None,
        inclination: Numbers | None = None,
        impact_parameter: Numbers | None = None,
        star_radius: Numbers | None = None,
        longitude_of_ascending_node: Numbers | None = None,
        ix: Numbers | None = None,
        iy: Numbers | None = None,
        true_anomaly: Numbers | None = None,
        mean_anomaly: Numbers | None = None,
        eccentric_anomaly: Numbers | None = None,
        mean_longitude: Numbers | None = None,
        time_of_pericenter: Numbers | None = None,
        time_of_transit: Numbers | None = None,
        epoch: float | int = 0.0,
        omega_of: str = "planet",
        **unknown: Any,
    ):
        arguments = dict(locals())
        check_names("Orbit", unknown)
        values = {k: v for k in _ELEMENTS if (v := arguments[k]) is not None}
        check_together(values, omega_of)
        values = dict(zip(values, promote_to_common_dtype(**values), strict=True))
        for name in _ELEMENTS:
            setattr(self, name, values.get(name))
        check_broadcast(**{name: leaf.shape for name, leaf in values.items()})
        check_finite(values)
        for name in values.keys() & {"period", "star_radius"}:
            positive(name, values[name])
        check_orbit(values)
        warn_of_degrees(**{name: values[name] for name in TURNS if name in values})
        if period is not None:
            check_dates(values, self.period)
        # No parameter: derivatives are by the time of transit or pericenter.
        self.epoch = float(finite("epoch", scalar("epoch", epoch)))
        self.omega_of = omega_of

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape of what is given, (orbit,) for several."""
        return np.broadcast_shapes(*(leaf.shape for leaf in jax.tree.leaves(self)))

    def __repr__(self) -> str:
        said = {**_given(self), "epoch": self.epoch, "omega_of": self.omega_of}
        listed = (f"{name}={eqx.tree_pformat(value)}" for name, value in said.items())
        return f"Orbit({', '.join(listed)})"

    def elements(self, gm: Numbers) -> Elements:
        """These as `Elements`, which hold `gm`.

        **Arguments:** `gm`, shape (...): G times the sum of both masses.

        **Limits:** as `Elements`, without derivatives at e = 0 and i = 0; `state` has
        them (mathematics).
        """
        gm = self._common_gm(gm)
        conic = conic_of(self, gm)
        if self.impact_parameter is not None:
            hint = "star_radius is a length, 0.00465 for the Sun in au"
            bound = f"impact_parameter * star_radius must be within the orbit; {hint}"
            check_where(np.isnan, bound, conic["inclination"])
        return Elements(**conic, gm=gm)

    def state(self, gm: Numbers) -> tuple[Float[Array, "... 3"], Float[Array, "... 3"]]:
        """Position and velocity relative to the other body, shape (..., 3).

        **Arguments:** `gm`, shape (...): G times the sum of both masses.
        """
        if not is_by_vector(self):
            return self.elements(gm).state()
        gm = self._common_gm(gm)
        return vector_state(self, gm)

    def _common_gm(self, gm: Numbers) -> Array:
        gm = gm_like(gm, _given(self))
        if self.period is not None:
            positive("gm", gm, GM_HINT)
        dated = self.time_of_pericenter is not None or self.time_of_transit is not None
        if dated and not is_traced(n := mean_motion_of(self, gm)):
            check_dates(_given(self), 2 * np.pi / n)
        return gm


#: Names of what may be given, whose leaves they are.
_ELEMENTS = tuple(
    field.name for field in dataclasses.fields(Orbit) if "static" not in field.metadata
)


def _given(orbit: Orbit) -> dict[str, Array]:
    leaves = {name: getattr(orbit, name) for name in _ELEMENTS}
    return {name: leaf for name, leaf in leaves.items() if leaf is not None}


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
    if by_angle:
        pericenter = _longitude_of_pericenter(orbit, node)
    else:
        pericenter = planar_angle(k, h)
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
