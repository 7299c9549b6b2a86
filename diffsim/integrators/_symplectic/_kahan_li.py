"""Kahan and Li's compositions of leapfrog: more steps, much smaller errors."""

from typing import Any, ClassVar

from ._symplectic_solver import AbstractSymplecticSolver, symmetric


_REFERENCE = ("10.1090/S0025-5718-97-00873-9", "10.1007/3-540-30666-8")


class KahanLi6(AbstractSymplecticSolver):
    r"""Kahan and Li's composition of nine leapfrog steps: symplectic, order 6.

    ```python
    system, times = problems.figure_eight(), jnp.linspace(0.0, 60.0, 200)
    trajectory = ds.simulate(system, times, ds.Method(integrators.KahanLi6(), 0.1))
    jnp.ptp(nbody.energy(system, trajectory.states))
    ```

    No step is longer than 0.8 of the whole, where `Yoshida6` steps back by 1.2, so its
    error is a tenth for 9/7 of the work.

    **Good values:** 30 to 100 steps per shortest period. Nine force evaluations a step.

    **Limits:** as `Leapfrog`.
    """

    weights: ClassVar[tuple[float, ...]] = symmetric(
        0.39216144400731413927925056,
        0.33259913678935943859974864,
        -0.70624617255763935980996482,
        0.08221359629355080023149045,
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 6


class KahanLi8(AbstractSymplecticSolver):
    r"""Kahan and Li's composition of seventeen leapfrog steps: symplectic, order 8.

    ```python
    system = problems.variations()  # a star and two planets, the inner of period 2π
    method = ds.Method(integrators.KahanLi8(), step=0.1)
    trajectory = ds.simulate(system, jnp.linspace(0.0, 200 * np.pi, 50), method)
    trajectory.states.velocities[:, 0]  # of the star
    ```

    **Good values:** 20 to 60 steps per shortest period. Seventeen force evaluations a
    step.

    **Limits:** as `Leapfrog`.
    """

    weights: ClassVar[tuple[float, ...]] = symmetric(
        0.13020248308889008087881763,
        0.56116298177510838456196441,
        -0.38947496264484728640807860,
        0.15884190655515560089621075,
        -0.39590389413323757733623154,
        0.18453964097831570709183254,
        0.25837438768632204729397911,
        0.29501172360931029887096624,
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 8
