"""`WisdomHolman`: Kepler orbits that are kicked by what perturbs them."""

from typing import Any, ClassVar

from ._correctors import CORRECTORS, corrector_stages, merged
from ._frames import FRAMES
from ._kepler_splitting import AbstractKeplerSplitting, Stage, choice


#: By name, the flow over each share of a step between the drifts at its ends, whose
#: shares are the first and the last.
_KERNELS: dict[str, tuple[tuple[str, float], ...]] = {
    "default": (("drift", 1 / 2), ("kick", 1.0), ("drift", 1 / 2)),
    "modified kick": (("drift", 1 / 2), ("modified kick", 1.0), ("drift", 1 / 2)),
    "lazy": (("drift", 1 / 2), ("lazy kick", 1.0), ("drift", 1 / 2)),
    "composition": (
        ("drift", 5 / 8),
        ("kick", -1 / 6),
        ("drift", -1 / 4),
        ("kick", 1 / 6),
        ("drift", 1 / 8),
        ("kick", 1.0),
        ("drift", -1 / 8),
        ("kick", -1 / 6),
        ("drift", 1 / 4),
        ("kick", 1 / 6),
        ("drift", 3 / 8),
    ),
}


class WisdomHolman(AbstractKeplerSplitting):
    r"""Wisdom and Holman's map: Kepler orbits, kicked by what perturbs them.

    $$e^{\tfrac h2 A}\,e^{h B}\,e^{\tfrac h2 A}, \qquad
      \text{error } O(\varepsilon h^2),\ \varepsilon = \text{perturbation} /
      \text{attraction of the center}$$

    ```python
    system = problems.outer_solar_system()
    method = ds.Method(nbody.WisdomHolman(corrector=17), step=3.5)  # Jupiter's P/21
    trajectory = ds.simulate(system, jnp.linspace(0.0, 1e5, 50), method)
    nbody.energy(system, trajectory.states)  # to 8 digits, and it does not drift
    ```

    Symplectic, and exact for two bodies at any step. Steps hand on the orbits behind
    their first half, so that there is one Kepler step for each; corrector and half
    steps are done where a state is wanted, and undone nowhere: outputs do not change a
    run. Derivatives are exact in every mode and order, 2 to 3 times the run in reverse
    mode; `simulations.Reversible()` steps back by the exact inverse of each step.

    **Arguments**

    - `coordinates`: `"jacobi"`, each body about the barycenter of those before it, so
        list them from the inside out; `"democratic heliocentric"`, where the order of
        bodies does not matter; `"whds"`, the same with an exact two-body problem.
    - `corrector`: order of the symplectic corrector, 3, 5, 7, 11 or 17, which leaves
        $O(\varepsilon h^{17} + \varepsilon^2 h^2)$; 0 is none. It costs nothing
        between outputs.
    - `kernel`: `"modified kick"`, `"lazy"` and `"composition"` take off ε²h² as well,
        by a derivative of the kick, one evaluation of it more and four of everything
        more; `"default"` is a plain kick. With Jacobi coordinates, and of use with a
        corrector. `"composition"` is time-symmetric to order h⁴ only.

    Test particles go about the barycenter of the bodies, or about the first of them.
    Forces of position beside `Gravity` are part of the kick.

    **Good values:** `corrector=17` at 20 steps of the shortest period: energies of
    4e-9 for the giant planets, 1e-10 with `kernel="lazy"`, 2e-6 without either; at 100
    steps 1e-10, 1e-13 and 1e-7. Those where pericenters are close. In single precision
    energies drift by 5e-5 in 10⁴ orbits at 20 steps a period, by 6e-6 at 80.

    **Raises:** `ValueError` for a choice that is not there, and where it runs, for
    forces that depend on velocity, softening, no `Gravity` or a single body; a warning
    for a step longer than half the shortest period.

    **Limits:** fixed steps; no close encounters between planets, where B is not small
    (mathematics); a center, body 0 (mathematics). Events ask for the state behind every
    step, for which a corrector is undone and done again: of order 17 that is 130 Kepler
    steps more, so take none, or the default method.
    """

    coordinates: str = choice("coordinates", "jacobi", FRAMES)
    corrector: int = choice("corrector", 0, CORRECTORS)
    kernel: str = choice("kernel", "default", _KERNELS)

    references: ClassVar[tuple[str, ...]] = (
        "10.1086/115978",
        "10.1086/502970",
        "10.1093/mnras/stv1257",
        "10.1093/mnras/stz2503",
    )

    def __check_init__(self) -> None:
        if self.kernel != "default" and self.coordinates != "jacobi":
            raise ValueError(
                f"kernel={self.kernel!r} needs coordinates='jacobi', in which "
                f"perturbations depend on positions alone, got {self.coordinates!r}"
            )

    def order(self, terms: Any) -> int:
        del terms
        return 4 if self.corrector and self.kernel != "default" else 2

    @property
    def entry(self) -> tuple[Stage, ...]:
        first = Stage("drift", _KERNELS[self.kernel][0][1])
        return (*corrector_stages(self.corrector), first)

    @property
    def cycle(self) -> tuple[Stage, ...]:
        first, *kernel = (Stage(*stage) for stage in _KERNELS[self.kernel])
        return merged((*kernel, first))
