"""`SABA`: compositions of Kepler orbits and kicks of high order in the perturbation."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ..._validation import one_of
from ._correctors import merged
from ._frames import FRAMES
from ._kepler_splitting import AbstractKeplerSplitting, Stage, choice
from ._saba_coefficients import (
    COMMUTATORS,
    SCHEMES,
    SCHEMES_FOR_BOTH,
    Coefficients,
    palindrome,
)


class SABA(AbstractKeplerSplitting):
    r"""Compositions of Kepler orbits and kicks of high order in the perturbation ε.

    $$e^{c_1 h A}\,e^{d_1 h B}\,e^{c_2 h A} \cdots e^{d_1 h B}\,e^{c_1 h A}, \qquad
      \text{error } O(\varepsilon h^{n_1} + \varepsilon^2 h^{n_2} + \ldots)$$

    ```python
    system = problems.outer_solar_system()
    method = ds.Method(nbody.SABA(), step=5.0)  # 15 a period of Jupiter
    trajectory = ds.simulate(system, jnp.linspace(0.0, 1e4, 50), method)
    nbody.energy(system, trajectory.states)  # to 13 digits
    ```

    As `WisdomHolman`, of which SABA1 is the plain form, in everything else: frames,
    the inner state, what is refused. Derivatives of every mode and order.

    **Arguments**

    - `scheme`: generalized order $(n_1, n_2, n_3)$, that is $(8, 6, 4)$ or
        $(10, 6, 4)$; $(10, 4)$ and 1 to 4, SABA1 to SABA4 of order $(2n, 2)$, with
        Jacobi coordinates; $(8, 4, 4)$.
    - `coordinates`: `"jacobi"`, `"democratic heliocentric"` or `"whds"`. Schemes of
        three orders are those for perturbations that depend on velocities as well,
        ABAH, where they do, in heliocentric coordinates.
    - `corrector`: whether a commutator at either end of SABA1 to SABA4 takes off what
        is left of order ε²h², SABAC1 to SABAC4; Jacobi coordinates only.

    **Good values:** the default at 20 steps a period for energies of 2e-14; a
    step has 8 Kepler steps and 8 force evaluations. `WisdomHolman` with a corrector
    where 1e-9 will do.

    **Raises:** `ValueError` for a choice that is not there.

    **Limits:** as `WisdomHolman`.
    """

    scheme: int | tuple[int, ...] = eqx.field(
        static=True,
        default=(10, 6, 4),
        converter=lambda s: tuple(s) if isinstance(s, list) else s,
    )
    coordinates: str = choice("coordinates", "jacobi", FRAMES)
    corrector: bool = choice("corrector", False, (True, False))

    references: ClassVar[tuple[str, ...]] = (
        "10.1023/A:1012098603882",
        "arXiv:1208.0689",
        "10.1007/s10569-013-9479-6",
        "10.1093/mnras/stz2503",
    )

    def __check_init__(self) -> None:
        one_of("scheme", self.scheme, tuple(self._schemes))
        if self.corrector and self.scheme not in COMMUTATORS:
            raise ValueError(
                f"corrector=True is there for the schemes 1 to 4, got {self.scheme!r}"
            )

    @property
    def _schemes(self) -> dict[int | tuple[int, ...], Coefficients]:
        if self.coordinates == "jacobi":
            return SCHEMES_FOR_BOTH | SCHEMES
        return SCHEMES_FOR_BOTH

    def order(self, terms: Any) -> int:
        del terms
        plain = isinstance(self.scheme, int) and not self.corrector
        return 2 if plain or self.scheme == 1 else 4

    @property
    def entry(self) -> tuple[Stage, ...]:
        first = Stage("drift", self._schemes[self.scheme].drifts[0])
        if not self.corrector:
            return (first,)
        return _commutator(1, COMMUTATORS[self.scheme]), first

    @property
    def cycle(self) -> tuple[Stage, ...]:
        drifts, kicks, count = self._schemes[self.scheme]
        stages = []
        kicks = palindrome(kicks, count)
        for kick, drift in zip(kicks, palindrome(drifts, count + 1)[1:], strict=True):
            stages += [Stage("kick", kick), Stage("drift", drift)]
        if self.corrector:
            stages.append(_commutator(2, COMMUTATORS[self.scheme]))
        return merged((*stages, Stage("drift", drifts[0])))


def _commutator(times: int, share: float) -> Stage:
    # A commutator grows as the cube of the step.
    return Stage("commutator", float(np.cbrt(times * share)))
