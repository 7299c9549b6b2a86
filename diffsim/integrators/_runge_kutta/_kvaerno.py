"""Kværnø's ESDIRK methods."""

from typing import ClassVar

import diffrax

from ._esdirk import AbstractImplicitRungeKutta, SolverState
from ._tableau import Tableau, from_diffrax


_REFERENCE = ("10.1023/B:BITN.0000046811.70614.38",)


class Kvaerno3(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    """ESDIRK method for stiff systems at low accuracy: order 3, three implicit stages.

    ```python
    problem = problems.kaps(epsilon=1e-8)  # decays within 1e-8, then moves slowly
    method = ds.Method(integrators.Kvaerno3(), step=0.1)
    ds.simulate(problem, 1.0, method).states  # e⁻², e⁻¹, to four digits
    ```

    A- and L-stable and stiffly accurate, with an error estimate of order 2: the steps,
    the coefficients and the dense output of `diffrax.Kvaerno3`, whose linear systems
    are dense in every derivative. Arguments are those of `AbstractImplicitRungeKutta`.

    **Good values:** tolerances of 1e-3 to 1e-5, and fixed steps that resolve what moves
    slowly; whatever decays faster than a step is damped.

    **Limits:** order reduction where stiff and slow modes mix (mathematics); smooth
    fields (mathematics); `linear_solver` as for `AbstractImplicitRungeKutta`.
    """

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.Kvaerno3.tableau, order=3)
    references: ClassVar[tuple[str, ...]] = _REFERENCE


class Kvaerno5(AbstractImplicitRungeKutta, diffrax.AbstractAdaptiveSolver[SolverState]):
    """ESDIRK method for stiff systems, a first choice: order 5, six implicit stages.

    A- and L-stable and stiffly accurate, with an error estimate of order 4: the steps,
    the coefficients and the dense output, of order 3, of `diffrax.Kvaerno5`. Arguments
    are those of `AbstractImplicitRungeKutta`.

    ```python
    problem = problems.kaps(epsilon=1e-6)
    method = ds.Method(integrators.Kvaerno5())  # adaptive, rtol = atol = 1e-8
    ds.simulate(problem, 1.0, method).states

    ds.Method(integrators.Kvaerno5(linear_solver=implicit.Tridiagonal()), step=0.1)
    ```

    **Good values:** tolerances of 1e-5 to 1e-10.

    **Limits:** order reduction where stiff and slow modes mix (mathematics); smooth
    fields (mathematics); `linear_solver` as for `AbstractImplicitRungeKutta`.
    """

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.Kvaerno5.tableau, order=5)
    references: ClassVar[tuple[str, ...]] = _REFERENCE
