"""Anderson acceleration."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._linalg import matmul, max_norm
from .._types import PyTree
from .._validation import count, positive
from ._layer_arguments import check_tolerances
from ._picard import Convergence


class _AndersonState(eqx.Module):
    """Differences of the last points and of f there, newest last."""

    points: Float[Array, "memory n"]
    values: Float[Array, "memory n"]
    last: tuple[Float[Array, " n"], Float[Array, " n"]]
    convergence: Convergence
    count: Int[Array, ""]


class Anderson(optx.AbstractFixedPointSolver[Any, Any, _AndersonState]):
    r"""Anderson's acceleration: the best mixture of the last points, then g.

    With $f = g(y) - y$ and its differences $\Delta F$ over the last points $\Delta Y$,

    $$\gamma = \arg\min |f - \Delta F \gamma|, \qquad
      y \leftarrow y + \beta f - (\Delta Y + \beta\, \Delta F)\,\gamma .$$

    ```python
    def relaxed(u, heating):  # a step of Jacobi's method, which gains 1 %
        return jnp.convolve(u, jnp.array([0.5, 0.0, 0.5]), "same") + heating / 21**2

    solver = implicit.Anderson(memory=10)
    implicit.fixed_point(relaxed, jnp.zeros(20), 1.0, solver=solver)
    ```

    **Arguments**

    - `rtol`, `atol`: of |f|, as those of `Picard`.
    - `memory`: how many differences are kept.
    - `damping`: $\beta$.
    - `norm`: of f over its tolerances.

    **Good values:** `memory` 5, and 10 where g contracts slowly.

    **Limits:** far from the fixed point of a strongly nonlinear map it may wander where
    damped `Picard` does not (mathematics).
    """

    rtol: float | None = None
    atol: float | None = None
    memory: int = eqx.field(
        static=True, default=5, kw_only=True, converter=partial(count, "memory")
    )
    damping: float = eqx.field(
        default=1.0, kw_only=True, converter=partial(positive, "damping")
    )
    norm: Callable[[PyTree], Array] = eqx.field(default=max_norm, kw_only=True)
    references: ClassVar[tuple[str, ...]] = (
        "10.1145/321296.321305",
        "10.1137/10078356X",
    )

    def __check_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        none = 0 * ravel_pytree(y)[0]
        history = jnp.tile(none, (self.memory, 1))
        start = Convergence.begin(y)
        return _AndersonState(history, history, (none, none), start, jnp.asarray(0))

    def step(self, fn, y, args, options, state, tags):
        mapped, aux = fn(y, args)
        f = jax.tree.map(jnp.subtract, mapped, y)
        reached = state.convergence.after(fn, y, f, args, self)
        flat, unravel = ravel_pytree(y)
        flat_f = ravel_pytree(f)[0]
        # Before the second point there is no difference.
        is_second = state.count > 0
        points, values = (
            jnp.roll(kept, -1, axis=0).at[-1].set(jnp.where(is_second, new - old, 0))
            for kept, new, old in zip(
                (state.points, state.values), (flat, flat_f), state.last, strict=True
            )
        )
        weights = _mixture(values, flat_f)
        flat_next = (
            flat
            + self.damping * flat_f
            - matmul(weights, points + self.damping * values)
        )
        state = _AndersonState(points, values, (flat, flat_f), reached, state.count + 1)
        return unravel(flat_next), state, aux

    def terminate(self, fn, y, args, options, state, tags):
        return state.convergence.is_reached, optx.RESULTS.successful

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        return y, aux, {}


def _mixture(values: Array, f: Array) -> Array:
    """γ that makes f − γ ΔF least, kept finite where differences are dependent.

    By the normal equations of scaled differences: γ only has to be nearly the best.
    """
    # Squares of unknowns of 1e-200 are no floats.
    top = jnp.max(jnp.abs(values), axis=1)
    unit = values / jnp.where(top == 0, 1, top)[:, None]
    size = top * jnp.sqrt(jnp.sum(unit**2, axis=1))
    scale = 1 / jnp.where(size == 0, 1, size)
    scaled = values * scale[:, None]
    ridge = 10 * jnp.finfo(f.dtype).eps * values.shape[0]
    # Rows of zeros, before the memory is full, get the weight zero.
    gram = matmul(scaled, scaled.T) + jnp.diag(jnp.where(size == 0, 1.0, ridge))
    return scale * jax.scipy.linalg.solve(gram, matmul(scaled, f), assume_a="pos")
