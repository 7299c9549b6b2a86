"""`CrankNicolson`: the implicit trapezoid."""

from typing import ClassVar

from ._esdirk import AbstractImplicitRungeKutta
from ._tableau import Tableau, stiffly_accurate


class CrankNicolson(AbstractImplicitRungeKutta):
    r"""Crank–Nicolson method, order 2 by one solve a step:

    $$y_{n+1} = y_n + \tfrac h2\bigl[f(y_n) + f(y_{n+1})\bigr] .$$

    ```python
    line, ends = pde.Grid(64), pde.Dirichlet(0.0)
    law = pde.Diffusion(0.1)  # bounds steps of Heun's method by 0.0012
    rod = pde.Evolution(law, lambda x: jnp.sin(np.pi * x[0]), line, ends)
    method = ds.Method(integrators.CrankNicolson(), step=0.01)
    ds.simulate(rod, 1.0, method).states
    ```

    A mode of rate λ is multiplied by $(1 + z/2)/(1 - z/2)$ a step, $z = h\lambda$: what
    oscillates keeps its amplitude, and what decays never grows, whatever the step. It
    is the implicit trapezoid, not the implicit midpoint, which has the same multiplier
    but evaluates f between. The dynamics are a `simulations.IMEXTerm` without an
    explicit part, which is asked to solve, or any other, solved for by Newton's method.
    Arguments are those of `AbstractImplicitRungeKutta`.

    **Good values:** steps that resolve what is to be seen, and of
    $\Delta x^2/D$ or less where diffusion starts from something rough.

    **Limits:** A-stable and not L-stable: modes with $h|\lambda| \gg 2$ change sign
    every step and hardly decay, where `Kvaerno3` damps them (mathematics). Fixed steps,
    there is no error estimate (convenience).
    """

    tableau: ClassVar[Tableau] = stiffly_accurate(2, 1 / 2, implicit=([1 / 2],))
    references: ClassVar[tuple[str, ...]] = ("10.1017/S0305004100023197",)
