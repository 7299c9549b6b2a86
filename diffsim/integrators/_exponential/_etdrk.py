"""Cox and Matthews' exponential time differencing Runge–Kutta methods."""

from typing import Any, ClassVar

from jaxtyping import Array

from ..._linalg import real_times
from ._exponential_solver import AbstractExponentialSolver, Stage
from ._phi import phi_functions


_REFERENCES = ("10.1006/jcph.2002.6995", "10.1137/S1064827502410633")


class ETDRK2(AbstractExponentialSolver):
    r"""Exponential time differencing of order 2, by two evaluations of N a step:

    $$a = e^{hL}u + h\varphi_1 N(u), \quad u_1 = a + h\varphi_2\,(N(a) - N(u)).$$

    ```python
    ring = pde.Grid(64, 0.0, 22.0)
    law = pde.KuramotoSivashinsky()
    flame = pde.Evolution(law, lambda x: jnp.cos(np.pi * x[0] / 11), ring)
    ds.simulate(flame, 20.0, ds.Method(integrators.ETDRK2(), step=0.05)).states
    ```

    Each $\varphi_k(hL)$ is accurate to machine precision at any hL, by series where
    quotients cancel. Dynamics are a `simulations.Semilinear`, as those of every
    equation of `pde` in Fourier space.

    **Good values:** half the longest step that N alone could take explicitly.

    **Limits:** fixed steps, there is no error estimate (convenience); a stiff N is
    stepped explicitly (mathematics).
    """

    table: Any = None

    references: ClassVar[tuple[str, ...]] = _REFERENCES

    def order(self, terms: Any) -> int:
        del terms
        return 2

    def functions(self, z: Array, length: Array) -> tuple[Array, ...]:
        whole, first, second = phi_functions(z, 2)
        return whole, length * first, length * second

    def advance(self, table: Any, stage: Stage, z: Array) -> Array:
        whole, first, second = table
        start = stage(0.0, z)
        a = real_times(whole, z) + real_times(first, start)
        return a + real_times(second, stage(1.0, a) - start)


class ETDRK4(AbstractExponentialSolver):
    r"""Exponential time differencing of order 4, by four evaluations of N a step.

    $$\begin{aligned}
    a &= e^{hL/2}u + \tfrac h2\varphi_1(\tfrac{hL}2)\,N(u), \quad
    b = e^{hL/2}u + \tfrac h2\varphi_1(\tfrac{hL}2)\,N(a), \\
    c &= e^{hL/2}a + \tfrac h2\varphi_1(\tfrac{hL}2)\,(2N(b) - N(u)), \\
    u_1 &= e^{hL}u + h\bigl[(\varphi_1 - 3\varphi_2 + 4\varphi_3)N(u)
      + (2\varphi_2 - 4\varphi_3)(N(a) + N(b)) + (4\varphi_3 - \varphi_2)N(c)\bigr].
    \end{aligned}$$

    ```python
    ring = pde.Grid(96, -8.0, 8.0)
    law = pde.KortewegDeVries()  # u''' alone bounds explicit steps by 0.0004
    soliton = pde.Evolution(law, lambda x: 2 / jnp.cosh(x[0]) ** 2, ring)
    ds.simulate(soliton, 1.0, ds.Method(integrators.ETDRK4(), step=0.005)).states
    ```

    As `ETDRK2` in everything else.

    **Good values:** a good first choice, at the longest step that N alone could take
    explicitly; half of it for sixteen times less error.

    **Limits:** as `ETDRK2`; order reduction towards 2 for stiff modes that N drives
    (mathematics).
    """

    table: Any = None

    references: ClassVar[tuple[str, ...]] = _REFERENCES

    def order(self, terms: Any) -> int:
        del terms
        return 4

    def functions(self, z: Array, length: Array) -> tuple[Array, ...]:
        whole, first, second, third = phi_functions(z, 3)
        half, inner = phi_functions(z / 2, 1)
        weights = first - 3 * second + 4 * third, 2 * second - 4 * third
        weights = *weights, 4 * third - second
        return whole, half, length / 2 * inner, *(length * w for w in weights)

    def advance(self, table: Any, stage: Stage, z: Array) -> Array:
        whole, half, inner, outer, middle, end = table
        start, halfway = stage(0.0, z), real_times(half, z)
        a = halfway + real_times(inner, start)
        at_a = stage(0.5, a)
        at_b = stage(0.5, halfway + real_times(inner, at_a))
        c = real_times(half, a) + real_times(inner, 2 * at_b - start)
        z = (
            real_times(whole, z)
            + real_times(outer, start)
            + real_times(end, stage(1.0, c))
        )
        return z + real_times(middle, at_a + at_b)
