"""Leapfrog: the second-order symplectic workhorse."""

from typing import Any, ClassVar

from ._symplectic_solver import AbstractSymplecticSolver


class Leapfrog(AbstractSymplecticSolver):
    r"""Drift–kick–drift leapfrog: symplectic, time-reversible, order 2.

    $$x_{1/2} = x_0 + \tfrac h2 v_0, \quad v_1 = v_0 + h\,a(x_{1/2}), \quad
      x_1 = x_{1/2} + \tfrac h2 v_1$$

    ```python
    system = problems.outer_solar_system()
    method = ds.Method(integrators.Leapfrog(), step=1.0)  # 75 a period of Jupiter
    trajectory = ds.simulate(system, jnp.linspace(0.0, 1e4, 50), method)
    nbody.energy(system, trajectory.states)  # oscillates, and does not drift
    ```

    The energy error stays bounded for exponentially long times at fixed step. Heun's
    and the midpoint method have the same order, and drift. Of dynamics that are
    `SplitFlows` it is Strang's splitting, half the first flow, the second, half the
    first.

    **Good values:** 20 to 100 steps per shortest orbital period; the error falls as
    $h^2$. One force evaluation a step.

    **Limits:** fixed steps (mathematics: steps that follow an error estimate destroy
    symplecticity); accelerations must not depend on velocity (convenience: such
    dynamics run with any explicit Runge–Kutta solver).
    """

    weights: ClassVar[tuple[float, ...]] = (1.0,)
    references: ClassVar[tuple[str, ...]] = (
        "10.1103/PhysRev.159.98",
        "10.1137/0705041",
    )

    def order(self, terms: Any) -> int:
        del terms
        return 2
