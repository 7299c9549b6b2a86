"""Kaps' problem: as stiff as one likes, and its solution is known."""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..integrators import KenCarp4, Kvaerno5
from ..simulations import AbstractSimulation, Method


class Kaps(AbstractSimulation):
    r"""$\dot u = -2u + (v^2 - u)/\epsilon$, $\dot v = u - v - v^2$.

    ```python
    problem = problems.Kaps(epsilon=jnp.array(1e-6), start=jnp.array([3.0, 1.0]))
    u, v = ds.simulate(problem, 0.5).states
    u - v**2  # of the order of epsilon, within which u decays to v²
    ```

    $u = e^{-2t}$ and $v = e^{-t}$ for every $\epsilon$, from $u = v = 1$. `split` makes
    the part with $\epsilon$ the implicit one of two terms.

    J. R. Cash, *BIT* 34 (1994) 86, of P. Kaps and P. Rentrop.
    """

    epsilon: Array
    start: Array
    split: bool = eqx.field(static=True, default=False)
    t0: float = 0.0

    def initial_state(self) -> Array:
        return self.start

    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        slow, fast = diffrax.ODETerm(_slow), diffrax.ODETerm(_fast)
        if self.split:
            return diffrax.MultiTerm(slow, fast)
        return diffrax.ODETerm(lambda *at: _slow(*at) + _fast(*at))

    def default_method(self) -> Method:
        return Method(KenCarp4() if self.split else Kvaerno5())


def kaps(*, epsilon: float = 0.5, split: bool = False) -> Kaps:
    """Return the problem with the initial value that has the exact solution.

    ```python
    problem = problems.kaps(epsilon=1e-3)
    times = jnp.linspace(0.0, 1.0, 11)
    u, v = ds.simulate(problem, times).states.T
    jnp.abs(v - jnp.exp(-times)).max()  # 1e-11
    ```

    **Arguments**

    - `epsilon`: the smaller, the stiffer.
    - `split`: two terms, of which the stiff one is implicit.
    """
    return Kaps(epsilon=jnp.asarray(epsilon), start=jnp.ones(2), split=split)


def _slow(t, y, problem):
    u, v = y
    return jnp.stack([-2 * u, u - v - v**2])


def _fast(t, y, problem):
    u, v = y
    return jnp.stack([(v**2 - u) / problem.epsilon, jnp.zeros_like(v)])
