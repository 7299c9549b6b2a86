"""Kennedy and Carpenter's IMEX Runge–Kutta methods."""

from typing import Any, ClassVar

import diffrax

from ._dense_output import Dense3, Dense4, Dense5
from ._esdirk import AbstractImplicitRungeKutta, SolverState
from ._tableau import Tableau, from_diffrax


_REFERENCE = ("10.1016/S0168-9274(02)00138-1",)


class KenCarp3(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    r"""IMEX method for $\dot y = f_E + f_I$, stiff $f_I$: order 3, 3 implicit stages.

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
