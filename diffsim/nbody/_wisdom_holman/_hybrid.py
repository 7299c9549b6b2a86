"""`HybridWisdomHolman`: Wisdom and Holman's map, and IAS15 where bodies meet."""

import functools
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..._types import PyTree
from ..._validation import positive
from ...simulations import AbstractUnsynchronizedSolver, Separable, adaptive_substeps
from .._gauss_radau import IAS15
from ._correctors import CORRECTORS, corrector_reach
from ._frames import FRAMES
from ._kepler_splitting import Constants, Orbits, check_bodies, choice
from ._wisdom_holman import WisdomHolman


#: Steps by IAS15 in one step of the map, of which it takes a few.
_MOST_STEPS = 4096


class _HybridConstants(eqx.Module):
    """Constants of the maps, and G times all masses, those of test particles too."""

    map: Constants
    gm: Array


class _Inside(NamedTuple):
    """Orbits as the map has them; without its corrector where `plain` is 1.

    A corrector moves bodies by several steps along their orbits and kicks them there:
    what it makes of an encounter is no state that tells how close bodies are.
    """

    orbits: Orbits
    plain: Array


class HybridWisdomHolman(AbstractUnsynchronizedSolver):
    r"""Wisdom and Holman's map, whose steps IAS15 takes over in close encounters.

    A step of length h is IAS15's, with as many steps of its own as it wants and all
    forces as they are, if two bodies come within `hill_radii` mutual Hill radii

    $$r_H = \left(\frac{m_i + m_j}{3 m_0}\right)^{1/3} \frac{r_i + r_j}{2}$$

    of each other on their way through it, or one of them so close to the center that
    a circle there takes less than `steps_per_turn` steps. All others are those of
    `WisdomHolman`, so that a run costs what that costs until bodies meet.

    ```python
    inner = nbody.Elements(semi_major_axis=[1.0, 1.1], eccentricity=0.1)
    bodies = nbody.Bodies.from_elements([1.0, 1e-4, 1e-4], inner)
    method = ds.Method(nbody.HybridWisdomHolman(), step=0.1)
    trajectory = ds.simulate(nbody.NBody(bodies), jnp.linspace(0.0, 200.0, 50), method)
    jnp.ptp(nbody.energy(nbody.NBody(bodies), trajectory.states))
    ```

    Which steps are whose is decided by the state alone and is held in derivatives: they
    are those of the map that was run, exact between switches. Where a parameter moves a
    switch to another step, a run jumps by what the two maps differ, an error of the map
    and of no derivative; parameters that a chaotic encounter amplifies have the
    derivatives that it amplifies.

    **Arguments**

    - `hill_radii`: from which distance on bodies meet, dimensionless.
    - `steps_per_turn`: of a circle at the distance from the center, dimensionless.
    - `coordinates`, `corrector`: of the map, see `WisdomHolman`.

    **Good values:** a step of 1/20 of the shortest period or less, in coordinates
    about the center, as these are, so that bodies may change their order.
    `corrector=17` costs nothing between outputs and encounters: with it the Sun and
    nine planets, 40 steps a period of Mercury, are off by 3e-8 of its distance after 50
    years, and by 2e-4 without.

    **Raises:** `ValueError` as `WisdomHolman`.

    **Limits:** fixed steps; forces that do not depend on velocity (convenience: take
    `IAS15`). Not symplectic where it switches: energies move by the error of the map
    there, and a comet (e = 0.99), which switches every turn, is off by 1e-4 of its axis
    after one passage of the pericenter and by 1e-3 a turn later, whatever the step:
    take `IAS15` (mathematics). Five bodies compile in 7 s, ten with `corrector=17` in
    30, a gradient in 17 and 42, a Hessian in two minutes (convenience). Both kinds of
    steps are run for each system of a batch under `vmap` (mathematics of compiled
    code); `ds.sweep` with one system a batch does not.
    """

    hill_radii: float = eqx.field(
        default=3.0, kw_only=True, converter=functools.partial(positive, "hill_radii")
    )
    steps_per_turn: float = eqx.field(
        default=8.0,
        kw_only=True,
        converter=functools.partial(positive, "steps_per_turn"),
    )
    coordinates: str = choice("coordinates", "whds", FRAMES)
    corrector: int = choice("corrector", 0, CORRECTORS)

    term_structure: ClassVar[Any] = Separable
    references: ClassVar[tuple[str, ...]] = (
        "10.1046/j.1365-8711.1999.02379.x",
        "10.1093/mnras/stz769",
        "arXiv:2405.03800",
    )

    @property
    def map(self) -> WisdomHolman:
        """The map of all other steps."""
        return WisdomHolman(coordinates=self.coordinates, corrector=self.corrector)

    @property
    def _plain(self) -> WisdomHolman:
        return WisdomHolman(coordinates=self.coordinates)

    @property
    def _reach(self) -> float:
        """How far from the middle of a step bodies are looked for, in steps.

        All that a corrector reads of it and of the next one is to be apart.
        """
        if not self.corrector:
            return 0.5
        return 1.5 + corrector_reach(self.corrector)

    @property
    def evaluations(self) -> int:
        """Force evaluations of a step of the map."""
        return self.map.evaluations

    def order(self, terms: Any) -> int:
        return self.map.order(terms)

    def constants(self, args: Any) -> _HybridConstants:
        check_bodies(self, args)
        of_map = self.map.constants(args)
        x, _ = jax.eval_shape(args.initial_state)
        gm = (args.gravity.G * args.bodies.masses).astype(x.dtype)
        return _HybridConstants(of_map, jnp.pad(gm, (0, x.shape[1] - gm.size)))

    def enter(self, constants, terms, t, length, y, args) -> _Inside:
        arguments = constants.map, terms, t, length, y, args
        orbits = self._plain.enter(*arguments)
        plain = jnp.zeros((), orbits.q.dtype)
        if self.corrector:
            met = self._meet(constants, length, orbits)
            corrected = jax.lax.cond(
                met, lambda: orbits, lambda: self.map.enter(*arguments)
            )
            return _Inside(corrected, met.astype(plain.dtype))
        return _Inside(orbits, plain)

    def leave(self, constants, terms, t, length, z, args) -> PyTree[Array]:
        def by(map):
            return lambda z: map.leave(constants.map, terms, t, length, z, args)

        if not self.corrector:
            return by(self.map)(z.orbits)
        return jax.lax.cond(z.plain > 0, by(self._plain), by(self.map), z.orbits)

    def forth(self, constants, terms, t, length, z, args) -> _Inside:
        def by_map(z):
            orbits = self.map.forth(constants.map, terms, t, length, z.orbits, args)
            return _Inside(orbits, z.plain)

        def by_ias15(z):
            y = self.leave(constants, terms, t, length, z, args)
            y = adaptive_substeps(
                IAS15(), terms, t, length, y, args, max_steps=_MOST_STEPS
            )
            return self.enter(constants, terms, t + length, length, y, args)

        met = self._meet(constants, length, z.orbits) | (z.plain > 0)
        # Run again for a gradient: else every step of the map would keep room for all
        # that thousands of steps by IAS15 leave to it.
        return jax.lax.cond(met, jax.checkpoint(by_ias15), by_map, z)

    def back(self, constants, terms, t, length, z, args) -> _Inside:
        # Nobody asks: `Reversible` refuses what is not time-symmetric, as this is not.
        raise NotImplementedError("steps by IAS15 are not undone by the same ones")

    def _meet(
        self, constants: _HybridConstants, length: Array, z: Orbits
    ) -> Bool[Array, ""]:
        """Whether bodies come close to each other or to the center in a step."""
        frame, gm = constants.map.frame, constants.gm
        # In the middle of the step, as the first drift left them.
        x, v = frame.inertial_positions(z.q), frame.inertial_velocities(z.w)
        apart2 = _least_distances2(x, v, self._reach * jnp.abs(length))
        r = jnp.sqrt(apart2[0, 1:])
        hill = jnp.cbrt((gm[1:] + gm[1:, None]) / (3 * gm[0])) * (r + r[:, None]) / 2
        others = ~np.eye(r.size, dtype=bool)
        close = (apart2[1:, 1:] < jnp.square(self.hill_radii * hill)) & others
        turn2 = (2 * np.pi) ** 2 * r**3 / (gm[0] + gm[1:])
        low = turn2 < jnp.square(self.steps_per_turn * length)
        return jnp.any(close) | jnp.any(low)


def _least_distances2(x: Array, v: Array, reach: Array) -> Array:
    """Squares of least distances of all pairs, on straight ways of `reach` each way."""
    d, u = x[:, None] - x[:, :, None], v[:, None] - v[:, :, None]
    u2 = jnp.sum(u * u, 0)
    s = -jnp.sum(d * u, 0) / jnp.where(u2 > 0, u2, 1)
    there = d + jnp.clip(s, -reach, reach) * u
    return jnp.sum(there * there, 0)
