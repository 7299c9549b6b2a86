"""`NonsingularElements`, regular at circles and at the plane, and their motion."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._jaxpr._primitives import custom_derivative
from ..._results import nan_unless
from ..._types import Numbers
from ..._validation import positive
from .._forces import inverse_unit
from ._eccentric_anomaly import eccentric_anomaly
from ._kepler_arguments import (
    GM_HINT,
    check_apart,
    check_finite,
    check_names,
    check_where,
    gm_like,
    leaves_of,
    phase,
    warn_of_degrees,
)
from ._vectors import dot, linear_combination, stack_components, unstacked, wrap_angle


class NonsingularElements(eqx.Module):
    r"""Elements of ellipses with finite derivatives at e = 0 and i = 0 (Pál 2009).

    $$\begin{aligned}
      h &= e\sin\varpi, & i_y &= 2\sin\tfrac i2 \sin\Omega, \\
      k &= e\cos\varpi, & i_x &= 2\sin\tfrac i2 \cos\Omega, \\
      \lambda &= M + \varpi, & \varpi &= \Omega + \omega \end{aligned}$$

    What to fit planets by: nearly circular and coplanar orbits have neither a
    pericenter nor a node that data could know.

    ```python
    orbits = nbody.NonsingularElements(semi_major_axis=[1.0, 1.6], k=[0.0, 0.02])
    nbody.Bodies.from_elements([1.0, 1e-5, 1e-5], orbits)

    slope = jax.jacfwd(lambda orbits: orbits.state(gm=1.0)[0])(orbits)
    slope.k  # finite for the circle too
    ```

    **Arguments**

    - `semi_major_axis`: a, length. It has to be given.
    - `h`, `k`: eccentricity vector; h² + k² < 1.
    - `ix`, `iy`: inclination vector; ix² + iy² < 4.
    - `mean_longitude`: λ, radians.
    - `unknown`: nothing; `a`, `l` are answered by the names above.

    What is not given is zero. Numbers or arrays of any shapes that broadcast; the
    leaves have the common one.

    **Raises:** `ValueError` for shapes that do not broadcast, an a that is not
    positive, h² + k² ≥ 1 and ix² + iy² > 4.

    **Limits:** NaN for such elements where they are traced (mathematics: λ is of bound
    orbits); singular at i = π (mathematics: some inclination has to be).
    """

    semi_major_axis: Float[Array, "*shape"]
    h: Float[Array, "*shape"]
    k: Float[Array, "*shape"]
    ix: Float[Array, "*shape"]
    iy: Float[Array, "*shape"]
    mean_longitude: Float[Array, "*shape"]

    references: ClassVar[tuple[str, ...]] = ("10.1111/j.1365-2966.2009.14853.x",)

    def __init__(
        self,
        *,
        semi_major_axis: Any = None,
        h: Numbers = 0.0,
        k: Numbers = 0.0,
        ix: Numbers = 0.0,
        iy: Numbers = 0.0,
        mean_longitude: Numbers = 0.0,
        **unknown: Any,
    ):
        check_names("NonsingularElements", unknown)
        values = {
            "semi_major_axis": semi_major_axis,
            "h": h,
            "k": k,
            "ix": ix,
            "iy": iy,
            "mean_longitude": mean_longitude,
        }
        for name, leaf in leaves_of(values).items():
            setattr(self, name, leaf)
        warn_of_degrees(mean_longitude=self.mean_longitude)
        hint = "of ellipses; hyperbolas are nbody.Elements"
        bound = f"semi_major_axis must be positive, got {{}}: these are {hint}"
        check_where(lambda a: a <= 0, bound, self.semi_major_axis)
        bound = f"h² + k² must be below 1, got {{:g}}² + {{:g}}²: these are {hint}"
        check_where(lambda h, k: h * h + k * k >= 1, bound, self.h, self.k)
        most = 4 * (1 + 8 * np.finfo(self.ix.dtype).eps)
        bound = "ix² + iy² must be at most 4, that of i = π, got {:g}² + {:g}²"
        check_where(lambda x, y: x * x + y * y > most, bound, self.ix, self.iy)

    @classmethod
    def from_state(cls, x: Numbers, v: Numbers, gm: Numbers) -> "NonsingularElements":
        """The ellipse through a state, as `state` has it, regular at circles.

        **Arguments:** `x`, `v` and `gm`, as those of `Elements.from_state`.

        **Returns:** `NonsingularElements` of shape (...), λ from −π to π.
        """
        x, v, gm = phase(x, v, gm=gm)
        positive("gm", gm, GM_HINT)
        check_apart(x)
        return cls(**_elements(x, v, gm))

    def state(self, gm: Numbers) -> tuple[Float[Array, "... 3"], Float[Array, "... 3"]]:
        """Position and velocity relative to the other body, shape (..., 3).

        **Arguments:** `gm`, shape (...): G times the sum of both masses.
        """
        check_finite(vars(self))
        leaves = {"semi_major_axis": self.semi_major_axis}
        return _state(self, gm_like(gm, leaves))


@jax.jit
def _state(orbit, gm):
    ellipse = (orbit.semi_major_axis > 0) & (orbit.h**2 + orbit.k**2 < 1)
    # At a half turn the sum is 4 to rounding, and no more than its root is NaN.
    tilted = orbit.ix**2 + orbit.iy**2 <= 4 * (1 + 8 * jnp.finfo(orbit.ix.dtype).eps)
    orbit = nan_unless(orbit, ellipse & tilted & (gm >= 0))
    c = jnp.sqrt(1 - (orbit.ix * orbit.ix + orbit.iy * orbit.iy) / 4)
    frame = tilted_frame(orbit.ix, orbit.iy, c)
    shape = orbit.semi_major_axis, orbit.h, orbit.k
    return ellipse_state(*shape, orbit.mean_longitude, frame, gm)


@jax.jit
def _elements(x, v, gm):
    s = inverse_unit(x)
    x, gm = s * x, s * gm
    r = jnp.sqrt(dot(x, x))
    momentum = jnp.cross(x, v)
    unit = momentum / jnp.sqrt(dot(momentum, momentum))[..., None]
    wx, wy, wz = unstacked(unit)
    # 1 / cos(i/2)
    scale = jnp.sqrt(2 / (1 + wz))
    ix, iy = -wy * scale, wx * scale
    along, across = tilted_frame(ix, iy, 1 / scale)
    vector = jnp.cross(v, momentum) / gm[..., None] - x / r[..., None]
    k, h = dot(vector, along), dot(vector, across)
    a = 1 / (2 / r - dot(v, v) / gm)
    mean = mean_longitude_at(dot(x, along) / a, dot(x, across) / a, h, k)
    return {
        "semi_major_axis": a / s,
        "h": h,
        "k": k,
        "ix": ix,
        "iy": iy,
        "mean_longitude": wrap_angle(mean),
    }


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
    return custom_derivative(_solve, _tangent, *jnp.broadcast_arrays(mean, h, k))[0]


def _solve(mean, h, k):
    e = jnp.hypot(h, k)
    pericenter = jnp.arctan2(h, k)
    return [pericenter + eccentric_anomaly(mean - pericenter, e)]


def _tangent(outputs, inputs, tangents):
    (longitude,), (_, h, k) = outputs, inputs
    sine, cosine = jnp.sin(longitude), jnp.cos(longitude)
    terms = zip((1.0, -cosine, sine), tangents, strict=True)
    change = sum(a * t for a, t in terms if t is not None)
    return [change / (1 - k * cosine - h * sine)]
