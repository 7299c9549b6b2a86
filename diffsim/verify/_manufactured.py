"""`Manufactured`: a manufactured solution, and the source that makes it one."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class Manufactured(eqx.Module):
    r"""Manufactured solution: the s of $\partial_t u = F(u) + s$ for a chosen u.

    With it, what a code computes can be compared with u itself, for any equation,
    coefficients and boundaries: the method of manufactured solutions. u and F are
    written for one place, in plain JAX, and derived by it: nothing of the code that is
    checked goes into the answer.

    ```python
    def solution(t, x):
        return jnp.sin(3 * x[0] + t)

    def rate(u, t, x):
        return 0.1 * jnp.trace(jax.hessian(u)(x))

    case, grid = verify.Manufactured(solution, rate), pde.Grid(32)
    law = pde.Diffusion(0.1, case.source)
    # The normal of the upper end points along the axis.
    ends = ((pde.Dirichlet(case.values), pde.Neumann(case.slope)),)
    rod = pde.Evolution(law, case.values(0.0, grid.centers), grid, ends)
    error = ds.simulate(rod, 0.2).states[0] - case.values(0.2, grid.centers)
    jnp.abs(error).max()  # 2e-4, a quarter of it with 64 cells
    ```

    **Arguments**

    - `solution`: `solution(t, x)`, u at the place x of shape (axis,): a number, or an
        array with one a channel.
    - `rate`: `rate(u, t, x)`, F at that place, of the shape of u; `u` is a function of
        the place, for `jax.grad`, `jax.jacfwd` and `jax.hessian`.

    Everything below takes coordinates x of shape (axis, ...), the centers of a grid or
    its walls, and returns fields of shape (...) or (channel, ...).

    **Good values:** a solution with no symmetry that the grid or the boundaries share,
    that changes with time, and whose channels are of order one.
    """

    solution: Callable[[Any, Array], Any]
    rate: Callable[[Callable[[Array], Any], Any, Array], Any]

    references: ClassVar[tuple[str, ...]] = ("10.1115/1.1436090",)

    def values(self, t: Any, x: Array) -> Array:
        """u."""
        return _everywhere(lambda x: self.solution(_time(t, x), x), x)

    def slope(self, t: Any, x: Array, axis: int = 0) -> Array:
        """∂u/∂x along one axis."""

        def along(x):
            step = jnp.zeros_like(x).at[axis].set(1)
            return jax.jvp(lambda x: self.solution(_time(t, x), x), (x,), (step,))[1]

        return _everywhere(along, x)

    def source(self, t: Any, x: Array, *fields: Array) -> Array:
        """s = ∂u/∂t − F(u); it does not ask what the fields have become."""
        del fields

        def missing(x):
            time = _time(t, x)
            moved = (time,), (jnp.ones_like(time),)
            change = jax.jvp(lambda t: self.solution(t, x), *moved)[1]
            rate = self.rate(lambda x: self.solution(time, x), time, x)
            return jnp.asarray(change) - rate

        return _everywhere(missing, x)


def _everywhere(function: Callable[[Array], Any], x: Array) -> Array:
    """A function of one place at every one of many."""
    places = x.shape[1:]
    flat = x.reshape(len(x), math.prod(places))
    values = jax.vmap(function, in_axes=1, out_axes=-1)(flat)
    return values.reshape(*values.shape[:-1], *places)


def _time(t: Any, x: Array) -> Array:
    return jnp.asarray(t, x.dtype)
