"""The first post-Newtonian correction to gravity."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import array_of, count, finite, positive
from ._force import AbstractForce
from ._unit_length import inverse_unit, self_distance2


class PostNewtonian(AbstractForce):
    r"""General relativity to order $1/c^2$, to stand beside `Gravity`.

    Einstein–Infeld–Hoffmann among all bodies (`primary=None`), β = γ = 1:

    $$\begin{aligned} c^2 a_i = \sum_{j\ne i} \frac{\mu_j d_{ij}}{r_{ij}^3} \Big[
      & v_i^2 + 2 v_j^2 - 4 v_i\!\cdot\! v_j
      - \tfrac32 \Big(\frac{d_{ij}\!\cdot\! v_j}{r_{ij}}\Big)^2
      - 4\phi_i - \phi_j + \tfrac12 d_{ij}\!\cdot\! a_j \Big] \\
      & + \frac{\mu_j}{r_{ij}^3} \big[d_{ij}\!\cdot\!(4 v_i - 3 v_j)\big]
        (v_j - v_i) + \frac{7\mu_j a_j}{2 r_{ij}} \end{aligned}$$

    with $d_{ij} = x_j - x_i$, $\phi_i = \sum_{k\ne i} \mu_k/r_{ik}$ and Newtonian
    $a_j$. With `primary=k` only the field of body k acts,

    $$c^2 a_i = \frac{\mu_k}{r^3}\left[\left(\frac{4\mu_k}{r} - v^2\right) r
      + 4 (r\cdot v)\, v\right],$$

    $r$ and $v$ relative to it, and body k takes the recoil.

    ```python
    bodies = problems.mercury().bodies  # au, days, and masses that are GM
    forces = nbody.Gravity(), nbody.PostNewtonian(c=173.144632674)
    ds.simulate(nbody.NBody(bodies, forces), 365.25).states
    ```

    **Arguments**

    - `c`: speed of light in your units; scalar. 173.144632674 au/day.
    - `primary`: index of the dominant body, or None for all pairs.

    **Good values:** all pairs for ephemerides (Mercury's perihelion 42.98″ a century in
    both); `primary=0` costs a tenth and is off by about the mass ratio.

    **Raises:** `ValueError` for a c that is not positive and finite, and a `primary`
    that is no index.

    **Limits:** point masses without softening; only `Gravity` supplies G (both
    convenience). Velocity dependent, so symplectic solvers are refused (mathematics).
    All pairs are formed at once: for tens of bodies, not thousands (convenience).
    """

    c: Array
    primary: int | None = eqx.field(static=True)

    velocity_dependent: ClassVar[bool] = True
    references: ClassVar[tuple[str, ...]] = (
        "10.2307/1968714",
        "10.3847/1538-3881/abd414",
    )

    def __init__(self, c: Numbers, *, primary: Any = None):
        hint = "it is the speed of light in your units"
        self.c = positive("c", finite("c", array_of("c", c, ())), hint)
        if primary is not None:
            hint = "the index of a body, or None for all pairs"
            primary = count("primary", primary, 0, hint)
        self.primary = primary

    def acceleration(self, t: Any, x: Array, v: Array | None, gm: Array) -> Array:
        del t
        # squared last: the derivative of 1/c² by way of c⁴ is beyond float32 in cgs
        inverse_c2 = jnp.square(1 / self.c.astype(x.dtype))
        s = inverse_unit(x)
        x, gm = s * x, s * gm
        if self.primary is None:
            return s * (inverse_c2 * _all_pairs(x, v, gm))
        return s * (inverse_c2 * _primary_pairs(x, v, gm, self.primary))


def _all_pairs(x, v, gm):
    massive = gm.size
    xs, vs = x[:, :massive], v[:, :massive]
    d = xs[:, None, :] - x[:, :, None]
    eye = jnp.eye(x.shape[1], massive, dtype=x.dtype)
    r2 = (d * d).sum(0) + self_distance2(x.dtype) * eye
    inverse = 1 / jnp.sqrt(r2)
    s = gm * inverse / r2
    a = (s * d).sum(2)[:, :massive]
    # the self-pair is far away by the eye, and the potential must not see it at all
    phi = (gm * inverse * (1 - eye)).sum(1)
    radial = (d * vs[:, None, :]).sum(0) * inverse
    bracket = (
        (v * v).sum(0)[:, None]
        + 2 * (vs * vs).sum(0)
        - 4 * (v[:, :, None] * vs[:, None, :]).sum(0)
        - 1.5 * radial**2
        - 4 * phi[:, None]
        - phi[:massive]
        + 0.5 * (d * a[:, None, :]).sum(0)
    )
    drag = (d * (4 * v[:, :, None] - 3 * vs[:, None, :])).sum(0)
    pull = gm * inverse * (1 - eye)
    return (
        (s * bracket * d).sum(2)
        + (s * drag * (vs[:, None, :] - v[:, :, None])).sum(2)
        + 3.5 * (pull * a[:, None, :]).sum(2)
    )


def _primary_pairs(x, v, gm, primary):
    mu = gm[primary]
    r = x - x[:, primary, None]
    u = v - v[:, primary, None]
    at_center = jnp.arange(x.shape[1]) == primary
    r2 = (r * r).sum(0) + at_center
    inverse = 1 / jnp.sqrt(r2)
    phi = mu * inverse
    a = phi * inverse * inverse
    a = a * ((4 * phi - (u * u).sum(0)) * r + 4 * (r * u).sum(0) * u)
    # the ratio of masses first: their product with a is beyond float32 in cgs units
    recoil = ((gm / mu) * a[:, : gm.size]).sum(1)
    return a.at[:, primary].set(-recoil)
