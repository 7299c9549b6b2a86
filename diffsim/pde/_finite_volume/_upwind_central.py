"""Upwind and central reconstruction: first order and monotone, or no dissipation."""

from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array

from ..._validation import one_of
from ._reconstruction import AbstractReconstruction


class Central(AbstractReconstruction):
    """Central interpolation: the polynomial through the cells around a face.

    ```python
    def wave(x):
        return jnp.sin(2 * np.pi * x[0])

    law = pde.AdvectionDiffusion(0.01, 1.0, scheme=pde.Central(order=4))
    run = ds.simulate(pde.Evolution(law, wave, pde.Grid(32)), 1.0)
    jnp.max(run.states)  # exp(−0.04 π²) = 0.674
    ```

    **Arguments**

    - `order`: 2 or 4.

    **Good values:** smooth fields that something else damps, diffusion of two cells or
    more across every layer for instance.

    **Limits:** waves of two cells stand still, and steps ring (mathematics: it damps
    nothing). Explicit solvers of order 3 or more are stable with it, Euler's and Heun's
    are not (mathematics).
    """

    order: int = eqx.field(
        static=True, default=2, converter=lambda order: one_of("order", order, (2, 4))
    )

    @property
    def width(self) -> int:
        return self.order // 2

    @property
    def is_nonlinear(self) -> bool:
        return False

    def reconstruct(self, views: Sequence[Array]) -> tuple[Array, Array]:
        if self.order == 2:
            face = (views[0] + views[1]) / 2
        else:
            face = (9 * (views[1] + views[2]) - (views[0] + views[3])) / 16
        return face, face


class Upwind(AbstractReconstruction):
    """First-order upwind: the value beside the face, monotone.

    ```python
    def wave(x):
        return jnp.sin(2 * np.pi * x[0])

    law, ring = pde.AdvectionDiffusion(None, 1.0, scheme=pde.Upwind()), pde.Grid(64)
    run = ds.simulate(pde.Evolution(law, wave, ring), 1.0)
    jnp.max(run.states)  # exp(−2π² Δx) = 0.73 of the wave is left
    ```

    **Good values:** a first try, and shocks that may smear over ten cells; else `MUSCL`
    or `WENO5`. What moves spreads as by a diffusivity of |v| Δx / 2.
    """

    @property
    def order(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return 1

    @property
    def is_nonlinear(self) -> bool:
        return False

    def reconstruct(self, views: Sequence[Array]) -> tuple[Array, Array]:
        left, right = views
        return left, right
