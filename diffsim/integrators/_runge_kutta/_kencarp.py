"""Kennedy and Carpenter's IMEX Runge–Kutta methods and their dense output."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree
from ._esdirk import AbstractImplicitRungeKutta, SolverState
from ._tableau import Tableau, add_scaled, from_diffrax, stacked_linear_combination


class AbstractDense(diffrax.AbstractLocalInterpolation):
    r"""Dense output $y(t_0 + \theta h) = y_0 + h \sum_i b_i(\theta)\,(k_i + \hat k_i)$.

    As Diffrax's, in the type of the state: its own is in double precision wherever JAX
    has that enabled.
    """

    t0: Any
    t1: Any
    y0: PyTree[Array]
    change: PyTree[Array]

    #: Coefficients of b_i(θ)/θ, the highest power first.
    powers: eqx.AbstractClassVar[np.ndarray]

    def __init__(self, *, t0, t1, y0, y1, k):
        del y1
        self.t0 = t0
        self.t1 = t1
        self.y0 = y0
        self.change = jax.tree.map(jnp.add, *k)

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            first, last = self.evaluate(t0, left=left), self.evaluate(t1, left=left)
            return jax.tree.map(jnp.subtract, last, first)
        span = jnp.where(self.t1 == self.t0, 1, self.t1 - self.t0)
        where = (t0 - self.t0) / span
        powers = jnp.asarray(self.powers, where.dtype)
        weights = where * jax.vmap(jnp.polyval, in_axes=(0, None))(powers, where)
        unit = jnp.ones_like(where)
        return add_scaled(
            self.y0, unit, stacked_linear_combination(weights, self.change)
        )


class Dense3(AbstractDense):
    """Dense output of KenCarp3, of order 2."""

    powers = diffrax.KenCarp3.interpolation_cls.coeffs


class Dense4(AbstractDense):
    """Dense output of KenCarp4, of order 3."""

    powers = diffrax.KenCarp4.interpolation_cls.coeffs


class Dense5(AbstractDense):
    """Dense output of KenCarp5, of order 3."""

    powers = diffrax.KenCarp5.interpolation_cls.coeffs


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

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp3.tableau, order=3)
    interpolation_cls: ClassVar[Any] = Dense3
    references: ClassVar[tuple[str, ...]] = _REFERENCE


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

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp4.tableau, order=4)
    interpolation_cls: ClassVar[Any] = Dense4
    references: ClassVar[tuple[str, ...]] = _REFERENCE


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

    tableau: ClassVar[Tableau] = from_diffrax(diffrax.KenCarp5.tableau, order=5)
    interpolation_cls: ClassVar[Any] = Dense5
    references: ClassVar[tuple[str, ...]] = _REFERENCE
