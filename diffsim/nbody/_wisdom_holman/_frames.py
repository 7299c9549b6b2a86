r"""Coordinates in which a system is Kepler orbits and small perturbations.

All are linear in the inertial ones, with coefficients made of masses alone:

$$q = A x, \quad w = B v, \qquad x = X + P q, \quad v = U + Q w,$$

X and U of the barycenter. Orbit i has the attraction $\mu_i$, and where the kinetic
energy has cross terms a rest of it moves positions by $h\,R\,w$, the jump.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _tuning
from ..._linalg import matmul


class Block(eqx.Module):
    """A matrix of massive bodies, and one row that is the same for all test particles.

    Test particles come last, and have their own entry beside that row if `own`.
    """

    massive: Float[Array, "row column"]
    light: Float[Array, " column"] | None
    own: bool = eqx.field(static=True, default=True)

    def __call__(self, x: Float[Array, "3 body"]) -> Array:
        count = self.massive.shape[1]
        heavy, light = x[:, :count], x[:, count:]
        rows = _times(self.massive, heavy)
        if not light.shape[1]:
            return rows
        common = 0.0
        if self.light is not None:
            common = jnp.sum(self.light * heavy, 1, keepdims=True)
        rest = light + common if self.own else jnp.zeros_like(light) + common
        return jnp.concatenate([rows, rest], 1)


class Frame(eqx.Module):
    """Coordinates of a system: see the top of this file."""

    gm: Float[Array, " orbit"]
    weights: Float[Array, " massive"]
    positions: Block
    velocities: Block
    inertial_positions: Block
    inertial_velocities: Block
    jump: Block | None

    def barycenter(self, x: Float[Array, "3 body"]) -> Float[Array, "3 1"]:
        """The mean of the massive bodies, weighted by mass."""
        heavy = x[:, : self.weights.size]
        return jnp.sum(self.weights * heavy, 1, keepdims=True)


def frame_of(coordinates: str, masses: Array, G: Any, test_particles: int) -> Frame:
    """The frame of a system; `coordinates` are keys of `FRAMES`."""
    # A center of no mass attracts nothing, and is the center all the same.
    center = jnp.where(masses[0] == 0, _tiny(masses.dtype), masses[0])
    masses = jnp.concatenate([center[None], masses[1:]])
    return FRAMES[coordinates](masses, G, test_particles)


def _tiny(dtype: Any) -> float:
    return 2.0**-400 if jnp.finfo(dtype).maxexp > 1000 else 2.0**-60


def _jacobi(masses, G, test_particles):
    """Each body about the barycenter of those before it."""
    n = masses.size
    eta = jnp.cumsum(masses)
    weights = masses / eta[-1]
    inner = np.tri(n - 1, n, dtype=bool)
    there = jnp.eye(n, dtype=masses.dtype)[1:]
    positions = there - jnp.where(inner, masses / eta[:-1, None], 0)
    outer = np.arange(n)[:, None] <= np.arange(1, n)
    back = there.T - jnp.where(outer, masses[1:] / eta[1:], 0)
    to, fro = Block(positions, -weights), Block(back, None)
    gm = jnp.concatenate([G * eta[1:], jnp.broadcast_to(G * eta[-1], test_particles)])
    return Frame(gm, weights, to, to, fro, fro, None)


def _democratic_heliocentric(masses, G, test_particles):
    """Positions about body 0, velocities about the barycenter."""
    orbits = masses.size - 1 + test_particles
    gm = jnp.broadcast_to(G * masses[0], orbits)
    return _heliocentric(masses, gm, jnp.ones_like(masses[1:]), diagonal=True)


def _whds(masses, G, test_particles):
    """The same with reduced masses, which leave two bodies without a perturbation."""
    gm = jnp.concatenate(
        [G * (masses[0] + masses[1:]), jnp.broadcast_to(G * masses[0], test_particles)]
    )
    scale = (masses[0] + masses[1:]) / masses[0]
    return _heliocentric(masses, gm, scale, diagonal=False)


def _heliocentric(masses, gm, scale, *, diagonal):
    """Velocities about the barycenter are those of the orbits over `scale`."""
    n, weights = masses.size, masses / jnp.sum(masses)
    there = jnp.eye(n, dtype=masses.dtype)[1:]
    center = jnp.eye(n, dtype=masses.dtype)[0]
    one = jnp.ones((n, 1), masses.dtype)
    ratios = masses[1:] / (masses[0] * scale)
    shared = jnp.broadcast_to(ratios, (n - 1, n - 1))
    if not diagonal:
        shared = shared * (1 - jnp.eye(n - 1, dtype=masses.dtype))
    back = there.T - one * weights[1:]
    return Frame(
        gm,
        weights,
        Block(there - center, -center),
        Block(scale[:, None] * (there - weights), -weights),
        Block(back, -weights[1:]),
        Block(jnp.concatenate([-ratios[None], jnp.diag(1 / scale)]), None),
        Block(shared, ratios, own=False),
    )


def _times(matrix: Array, x: Array) -> Array:
    if matrix.size <= _tuning.MATRIX_WRITTEN_OUT:
        return jnp.sum(matrix * x[:, None, :], 2)
    return matmul(x, matrix.T)


#: By what they are called.
FRAMES = {
    "jacobi": _jacobi,
    "democratic heliocentric": _democratic_heliocentric,
    "whds": _whds,
}
