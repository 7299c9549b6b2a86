"""Kennedy and Carpenter's IMEX Runge–Kutta methods."""

from typing import Any, ClassVar

import diffrax

from ._dense_output import Dense3, Dense4, Dense5
from ._esdirk import AbstractImplicitRungeKutta, SolverState
from ._tableau import Tableau, from_diffrax


_REFERENCE = ("10.1016/S0168-9274(02)00138-1",)


class KenCarp3(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 3, 3 implicit stages.

    ```python
    line, ends = pde.Grid(64, 0.0, 20.0), pde.Neumann(0.0)
    law = pde.FisherKPP(0.5, 1.0)  # diffusion is solved for, growth is evaluated
    front = pde.Evolution(law, lambda x: jnp.exp(-(x[0] ** 2)), line, ends)
    control = diffrax.PIDController(rtol=1e-4, atol=1e-4)
    method = ds.Method(integrators.KenCarp3(), controller=control)
    ds.simulate(front, 5.0, method).states
    ```

    The dynamics are a `simulations.IMEXTerm`, or
    `diffrax.MultiTerm(explicit, implicit)`: $f_E$ is evaluated, only $f_I$ is solved
    for, and `linear_solver` is about $\partial f_I/\partial y$ alone: a diffusion that
    is linear and `Tridiagonal()` beside any reaction, for instance. The implicit part
    is L-stable. Coefficients and dense output, of order 2, are those of
    `diffrax.KenCarp3`; arguments are those of `AbstractImplicitRungeKutta`.

    **Good values:** tolerances of 1e-3 to 1e-5; steps that an explicit method of $f_E$
    alone could take.

    **Limits:** steps are bounded by the stability of $f_E$ (mathematics);
    `linear_solver` as for `AbstractImplicitRungeKutta`.
    """

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp3.tableau)
    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Dense3
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 3


class KenCarp4(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 4, 5 implicit stages.

    ```python
    line = pde.Grid(64)
    law = pde.GrayScott(0.04, 0.06, (2e-3, 1e-3))  # only diffusion is solved for
    dish = pde.Evolution(law, lambda x: jnp.stack([1 - x[0] / 2, x[0] / 4]), line)
    ds.simulate(dish, 100.0, ds.Method(integrators.KenCarp4())).states
    ```

    As `KenCarp3`, with an error estimate of order 3 and dense output of order 3; a good
    first choice for reaction or advection beside diffusion.

    **Good values:** tolerances of 1e-4 to 1e-8.

    **Limits:** as `KenCarp3`.
    """

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp4.tableau)
    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Dense4
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 4


class KenCarp5(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 5, 7 implicit stages.

    ```python
    control = diffrax.PIDController(rtol=1e-10, atol=1e-10)
    method = ds.Method(integrators.KenCarp5(), controller=control)
    problem = problems.kaps(epsilon=1e-4, split=True)  # stiff: the second term
    ds.simulate(problem, 1.0, method).states  # e⁻², e⁻¹, to ten digits
    ```

    As `KenCarp3`, with an error estimate of order 4 and dense output of order 3.

    **Good values:** tolerances of 1e-6 to 1e-10.

    **Limits:** as `KenCarp3`.
    """

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp5.tableau)
    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Dense5
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 5
