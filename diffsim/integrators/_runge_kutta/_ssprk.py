"""Strong-stability-preserving steps, for conservation laws."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree


#: Weights of order 2, also strong-stability-preserving (Fekete, Conde and Shadid 2022).
_EMBEDDED = np.array([0.291485418878409, 0.291485418878409, 0.417029162243182])


class _Parabola(diffrax.AbstractLocalInterpolation):
    """Through both ends with the first slope: the dense output of order 2."""

    t0: Any
    t1: Any
    y0: PyTree[Array]
    y1: PyTree[Array]
    k: PyTree[Array]

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            late, early = self.evaluate(t1), self.evaluate(t0)
            return jax.tree.map(lambda a, b: a - b, late, early)
        # A leg of no length has any number for the fraction of it.
        length = self.t1 - self.t0
        passed = (t0 - self.t0) / jnp.where(length == 0, 1, length)

        def parabola(start, end, slopes):
            change = end - start
            return start + passed * (slopes[0] + passed * (change - slopes[0]))

        return jax.tree.map(parabola, self.y0, self.y1, self.k)


class SSPRK3(diffrax.AbstractERK):
    r"""Strong-stability-preserving Runge–Kutta method of order 3, by Shu and Osher.

    $$u_1 = E(u), \quad u_2 = \tfrac34 u + \tfrac14 E(u_1), \quad
    u_3 = \tfrac13 u + \tfrac23 E(u_2), \qquad E(u) = u + h f(u)$$

    ```python
    ring, law = pde.Grid(64), pde.Burgers(None)
    wave = pde.Evolution(law, lambda x: jnp.sin(2 * np.pi * x[0]), ring)
    method = ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.5))
    ds.simulate(wave, 0.3, method).states  # a shock, without overshoots
    ```

    What a step of Euler's method keeps, no new extremum and no negative density at
    steps short enough, it keeps at the same steps. Stable to $h|\lambda| = 1.73$ on the
    imaginary axis, which Euler's and Heun's methods are not, and to 2.51 on the
    negative real one.

    **Good values:** `Method(SSPRK3(), controller=pde.CFL(0.5))` for conservation laws,
    or a fixed step.

    Outputs between the steps of an adaptive run are of order 2.

    **Limits:** of order 3; smooth problems without jumps take longer steps with
    `diffrax.Dopri8` (mathematics).
    """

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        c=np.array([1.0, 0.5]),
        b_sol=np.array([1 / 6, 1 / 6, 2 / 3]),
        b_error=np.array([1 / 6, 1 / 6, 2 / 3]) - _EMBEDDED,
        a_lower=(np.array([1.0]), np.array([0.25, 0.25])),
    )
    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = (
        _Parabola
    )
    references: ClassVar[tuple[str, ...]] = (
        "10.1016/0021-9991(88)90177-5",
        "10.1016/j.cam.2022.114325",
    )

    def order(self, terms: Any) -> int:
        del terms
        return 3
