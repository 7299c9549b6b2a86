"""Picard iteration."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, PyTree

from .._norms import max_norm
from ._fixed_point_convergence import Convergence


class Picard(optx.AbstractFixedPointSolver):
    r"""Picard's iteration, $y \leftarrow y + \beta\,(g(y) - y)$.

    It converges where g contracts, as fast as g does.

    No scale of y is presumed: the search ends where g(y) − y is within `rtol` |y|,
    entry by entry; where it is so beside the largest entry of each array and eight
    steps have not made it smaller, as an entry that vanishes to rounding; or where y is
    rounding of what it was and g(0) is 0, a fixed point at zero.

    **Arguments**

    - `rtol`: of $|g(y) - y|$ over |y|; None is the 3/4 power of the precision, 2e-12 in
        float64.
    - `atol`: the search ends where $|g(y) - y|$ is within `atol` + `rtol` |y|, and
        nowhere else. None presumes nothing.
    - `damping`: $\beta$; less than one tames maps that overshoot.
    - `norm`: of the step over its tolerances.
    """

    rtol: float | None = None
    atol: float | None = None
    damping: float = eqx.field(default=1.0, kw_only=True)
    norm: Callable[[PyTree], Array] = eqx.field(default=max_norm, kw_only=True)

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        del fn, args, options, f_struct, aux_struct, tags
        return Convergence.begin(y)

    def step(self, fn, y, args, options, state, tags):
        del options, tags
        mapped, aux = fn(y, args)
        f = jax.tree.map(jnp.subtract, mapped, y)
        state = state.after(fn, y, f, args, self)
        y = jax.tree.map(lambda a, d: a + self.damping * d, y, f)
        return y, state, aux

    def terminate(self, fn, y, args, options, state, tags):
        del fn, y, args, options, tags
        return state.is_reached, optx.RESULTS.successful

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        del fn, args, options, state, tags, result
        return y, aux, {}
