"""`AbstractRiemannSolver` and the approximate Riemann solvers of Rusanov and HLL."""

import abc
from functools import reduce
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ._limiters import above_zero, below_zero, larger, smaller


#: One array a channel.
Channels = tuple[Array, ...]


class AbstractRiemannSolver(eqx.Module):
    """Approximate Riemann solver: the flux through a face from the states beside it."""

    @abc.abstractmethod
    def flux(self, law: Any, left: Channels, right: Channels, axis: int) -> Channels:
        """Across faces along `axis`; the sides are in the variables of the `law`."""


class Rusanov(AbstractRiemannSolver):
    r"""Rusanov's flux, $\tfrac12(F_L + F_R) - \tfrac12 s\,(U_R - U_L)$.

    Local Lax–Friedrichs, with s the fastest of all speeds.

    ```python
    def sine(x):
        return jnp.sin(2 * np.pi * x[0])

    law = pde.Burgers(scheme=pde.MUSCL(), riemann_solver=pde.Rusanov())
    wave = pde.Evolution(law, sine, pde.Grid(100))
    ds.simulate(wave, 0.3).states  # a shock at x = 1/2
    ```

    **Good values:** a law of one equation, and any where robustness counts most.

    **Limits:** it smears waves slower than the fastest, contacts above all
    (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1007/b79761",)

    def flux(self, law: Any, left: Channels, right: Channels, axis: int) -> Channels:
        speeds = (*law.wave_speeds(left, axis), *law.wave_speeds(right, axis))
        fastest = reduce(larger, [jnp.abs(s) for s in speeds])
        sides = (law.flux(w, axis) for w in (left, right))
        states = (law.conserved(w) for w in (left, right))
        return tuple(
            (f_left + f_right - fastest * (u_right - u_left)) / 2
            for f_left, f_right, u_left, u_right in zip(*sides, *states, strict=True)
        )


class HLL(AbstractRiemannSolver):
    r"""Harten, Lax and van Leer's flux: one state between the outer waves.

    $$F = \frac{s_R F_L - s_L F_R + s_L s_R (U_R - U_L)}{s_R - s_L}, \qquad
    s_L \le 0 \le s_R$$

    ```python
    def dam(x):
        depth = jnp.where(x[0] < 0.5, 2.0, 1.0)
        return jnp.stack([depth, 0 * depth])

    law = pde.ShallowWater(9.81, riemann_solver=pde.HLL())
    water = pde.Evolution(law, dam, pde.Grid(100), pde.Outflow())
    ds.simulate(water, 0.05)["depth"]  # a bore and a rarefaction
    ```

    with the slowest and fastest speeds of both sides, cut at zero.

    **Good values:** systems of two waves, shallow water in one dimension above all.

    **Limits:** it smears waves between those two (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/1025002",)

    def flux(self, law: Any, left: Channels, right: Channels, axis: int) -> Channels:
        slow, fast = _extreme_speeds(law, left, right, axis)
        slow, fast = below_zero(slow), above_zero(fast)
        width = fast - slow
        # Nothing moves, and both fluxes are the same.
        share = fast / jnp.where(width > 0, width, 1)
        share = jnp.where(width > 0, share, 0.5)
        sides = (law.flux(w, axis) for w in (left, right))
        states = (law.conserved(w) for w in (left, right))
        return tuple(
            share * f_left + (1 - share) * f_right + share * slow * (u_right - u_left)
            for f_left, f_right, u_left, u_right in zip(*sides, *states, strict=True)
        )


class HLLC(AbstractRiemannSolver):
    r"""HLL with the contact: two states between the outer waves, left and right of it.

    $$F = F_K + s_K\,(U^*_K - U_K)$$

    ```python
    grid = pde.Grid(100)
    gas = pde.Euler(riemann_solver=pde.HLLC())
    rho = jnp.where(grid.centers[0] < 0.5, 1.0, 2.0)  # a contact at rest
    tube = pde.Evolution(gas, gas.state(rho, 0.0, 1.0), grid, pde.Outflow())
    jnp.max(jnp.abs(ds.simulate(tube, 0.1)["density"] - rho))  # 0
    ```

    with the side K that the contact moves away from. Contacts at rest stay as they are,
    which `HLL` and `Rusanov` smear.

    **Good values:** the Euler equations, and laws with a `contact_speed` and a
    `star_state`.

    **Limits:** strong shocks along an axis of the grid may grow carbuncles
    (mathematics).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1007/BF01414629",)

    def flux(self, law: Any, left: Channels, right: Channels, axis: int) -> Channels:
        slow, fast = _extreme_speeds(law, left, right, axis)
        middle = law.contact_speed(left, right, axis, slow, fast)
        rightwards = middle >= 0
        w = tuple(jnp.where(rightwards, a, b) for a, b in zip(left, right, strict=True))
        outer = jnp.where(rightwards, slow, fast)
        # An outer wave that moves along with the contact takes all between with it.
        passed = jnp.where(rightwards, below_zero(slow), above_zero(fast))
        states, between = law.conserved(w), law.star_state(w, axis, outer, middle)
        return tuple(
            f + passed * (b - u)
            for f, u, b in zip(law.flux(w, axis), states, between, strict=True)
        )


def _extreme_speeds(law, left, right, axis):
    slow_left, fast_left = law.wave_speeds(left, axis)
    slow_right, fast_right = law.wave_speeds(right, axis)
    return smaller(slow_left, slow_right), larger(fast_left, fast_right)
