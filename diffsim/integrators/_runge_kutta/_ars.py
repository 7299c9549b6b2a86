"""Ascher, Ruuth and Spiteri's IMEX Runge–Kutta methods."""

import math
from typing import ClassVar

from ._esdirk import AbstractImplicitRungeKutta
from ._tableau import Tableau, stiffly_accurate


_REFERENCE = ("10.1016/S0168-9274(97)00056-1",)

_GAMMA = 1 - math.sqrt(1 / 2)
_DELTA = 1 - 1 / (2 * _GAMMA)


class ARS222(AbstractImplicitRungeKutta):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 2, 2 implicit stages.

    With $\gamma = 1 - 1/\sqrt2$ and $\delta = 1 - 1/2\gamma$, a step ends in its last
    stage, $y_{n+1} = z_2$:

    $$\begin{aligned}
    z_1 &= y_n + h\gamma\,f_E(y_n) + h\gamma\,f_I(z_1), \\
    z_2 &= y_n + h\bigl[\delta f_E(y_n) + (1 - \delta) f_E(z_1)\bigr]
      + h\bigl[(1 - \gamma) f_I(z_1) + \gamma f_I(z_2)\bigr].
    \end{aligned}$$

    ```python
    line, ends = pde.Grid(64, 0.0, 20.0), pde.Neumann(0.0)
    law = pde.FisherKPP(0.5, 1.0)  # growth of rate 1: steps of 0.1 resolve it
    front = pde.Evolution(law, lambda x: jnp.exp(-(x[0] ** 2)), line, ends)
    ds.simulate(front, 5.0, ds.Method(integrators.ARS222(), step=0.1)).states
    ```

    Two evaluations of $f_E$ and two solves a step. The dynamics are a
    `simulations.IMEXTerm`, or `diffrax.MultiTerm(explicit, implicit)`. The implicit
    part is L-stable; arguments are those of `AbstractImplicitRungeKutta`.

    **Good values:** steps that Heun's method could take of $f_E$ alone,
    $h|\lambda| \le 2$ for rates λ of decay.

    **Limits:** fixed steps, there is no error estimate (convenience: `KenCarp3` has
    one). Steps are bounded by the stability of $f_E$, of which there is none on the
    imaginary axis, that of central differences of an advection, but for the damping by
    $f_I$ (mathematics).
    """

    tableau: ClassVar[Tableau] = stiffly_accurate(
        2,
        _GAMMA,
        implicit=([0.0], [0.0, 1 - _GAMMA]),
        explicit=([_GAMMA], [_DELTA, 1 - _DELTA]),
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE


class ARS443(AbstractImplicitRungeKutta):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 3, 4 implicit stages.

    ```python
    lid = pde.NoSlip((1.0, 0.0))  # friction is stiff, and solved for
    walls = pde.NoSlip(), (pde.NoSlip(), lid)
    cavity = pde.IncompressibleFlow(0.1, pde.Grid((16, 16)), walls)
    ds.simulate(cavity, 0.2, ds.Method(integrators.ARS443(), step=0.02)).states
    ```

    As `ARS222`, with four evaluations of $f_E$ and four solves a step, and stable for
    $f_E$ on the imaginary axis: a good first choice for advection beside diffusion.

    **Good values:** $h|\lambda| \le 1.57$ for rates λ of $f_E$ on the imaginary axis,
    2.15 on the negative real one.

    **Limits:** fixed steps, there is no error estimate (convenience: `KenCarp3` has
    one). Steps are bounded by the stability of $f_E$, and order is lost where stiff and
    slow modes mix (mathematics).
    """

    tableau: ClassVar[Tableau] = stiffly_accurate(
        3,
        1 / 2,
        implicit=(
            [0.0],
            [0.0, 1 / 6],
            [0.0, -1 / 2, 1 / 2],
            [0.0, 3 / 2, -3 / 2, 1 / 2],
        ),
        explicit=(
            [1 / 2],
            [11 / 18, 1 / 18],
            [5 / 6, -5 / 6, 1 / 2],
            [1 / 4, 7 / 4, 3 / 4, -7 / 4],
        ),
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE
