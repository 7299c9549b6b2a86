"""Yoshida's compositions of leapfrog, of order 4, 6 and 8."""

from typing import Any, ClassVar

from ._symplectic_solver import AbstractSymplecticSolver, symmetric


_CUBE_ROOT = 2 ** (1 / 3)
_REFERENCE = ("10.1016/0375-9601(90)90092-3",)


class Yoshida4(AbstractSymplecticSolver):
    r"""Yoshida's composition of three leapfrog steps: symplectic, order 4.

    $$w_1 = w_3 = \frac{1}{2 - 2^{1/3}}, \quad w_2 = 1 - 2 w_1$$

    ```python
    system = problems.figure_eight()
    method = ds.Method(integrators.Yoshida4(), step=0.05)
    trajectory = ds.simulate(system, jnp.linspace(0.0, 60.0, 200), method)
    jnp.ptp(nbody.energy(system, trajectory.states))
    ```

    Also known as the Forest–Ruth method. The middle step goes back in time.

    **Good values:** 30 to 100 steps per shortest period; energy errors of 1e-6 to 1e-9.
    Three force evaluations a step.

    **Limits:** as `Leapfrog`.
    """

    weights: ClassVar[tuple[float, ...]] = symmetric(1 / (2 - _CUBE_ROOT))
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 4


class Yoshida6(AbstractSymplecticSolver):
    r"""Yoshida's composition of 7 leapfrog steps, solution A: symplectic, order 6.

    ```python
    adjoint = simulations.Reversible()
    method = ds.Method(integrators.Yoshida6(), step=0.1, adjoint=adjoint)

    def height(system):  # its gradient takes the memory of one state, not of 600
        return ds.simulate(system, 60.0, method).states.positions[0, 1]

    eqx.filter_grad(height)(problems.figure_eight()).bodies.velocities
    ```

    **Good values:** 30 to 100 steps per shortest period; energy errors of 1e-9 to
    1e-12. Seven force evaluations a step.

    **Limits:** as `Leapfrog`; the weights are published to 15 digits.
    """

    weights: ClassVar[tuple[float, ...]] = symmetric(
        0.784513610477560, 0.235573213359357, -1.17767998417887
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 6


class Yoshida8(AbstractSymplecticSolver):
    r"""Yoshida's composition of 15 leapfrog steps, solution D: symplectic, order 8.

    ```python
    system = problems.outer_solar_system()
    method = ds.Method(integrators.Yoshida8(), step=2.0)  # 37 a period of Jupiter
    trajectory = ds.simulate(system, [0.0, 1e4], method)
    jnp.diff(nbody.energy(system, trajectory.states))
    ```

    **Good values:** 30 to 60 steps per shortest period, where rounding takes over.
    Fifteen force evaluations a step.

    **Limits:** as `Leapfrog`; the weights are published to 15 digits.
    """

    weights: ClassVar[tuple[float, ...]] = symmetric(
        0.914844246229740,
        0.253693336566229,
        -1.44485223686048,
        -0.158240635368243,
        1.93813913762276,
        -1.96061023297549,
        0.102799849391985,
    )
    references: ClassVar[tuple[str, ...]] = _REFERENCE

    def order(self, terms: Any) -> int:
        del terms
        return 8
