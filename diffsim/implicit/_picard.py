"""Picard iteration, and when an iteration has reached a fixed point."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax import lax
from jaxtyping import Array, Bool, Float

from .._linalg import machine_epsilon, max_norm
from .._types import PyTree
from .._validation import positive
from ._iteration import relative_to, step_over_tolerance, test_where
from ._layer_arguments import check_tolerances


#: Steps after which what is as small as rounding of its array no longer gets smaller.
_PATIENCE = 8


class Picard(optx.AbstractFixedPointSolver[Any, Any, "Convergence"]):
    r"""Picard's iteration, $y \leftarrow y + \beta\,(g(y) - y)$.

    ```python
    def shielded(y, depth):  # g' = −1.2: plain iteration runs away
        return jnp.exp(-depth * y)

    implicit.fixed_point(shielded, 0.5, 4.0, solver=implicit.Picard(damping=0.5))
    ```

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
    damping: float = eqx.field(
        default=1.0, kw_only=True, converter=partial(positive, "damping")
    )
    norm: Callable[[PyTree], Array] = eqx.field(default=max_norm, kw_only=True)

    def __check_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        return Convergence.begin(y)

    def step(self, fn, y, args, options, state, tags):
        mapped, aux = fn(y, args)
        f = jax.tree.map(jnp.subtract, mapped, y)
        state = state.after(fn, y, f, args, self)
        y = jax.tree.map(lambda a, d: a + self.damping * d, y, f)
        return y, state, aux

    def terminate(self, fn, y, args, options, state, tags):
        return state.is_reached, optx.RESULTS.successful

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        return y, aux, {}


class Convergence(eqx.Module):
    """The measure of f = g(y) − y over its tolerance, and how it has gone.

    - `size`: of f by each entry; `rough`: by the largest entry of each array.
    - `least`: of `size` so far, and `since`, the number of steps from then.
    - `peaks`: the largest magnitude of each array on the way.
    """

    size: Float[Array, ""]
    rough: Float[Array, ""]
    least: Float[Array, ""]
    since: Float[Array, ""]
    peaks: list[Float[Array, ""]]

    @classmethod
    def begin(cls, y: PyTree[Array]) -> "Convergence":
        # These have the types of steps, inside shard_map as well.
        nothing = 0 * max_norm(y)
        far = nothing + jnp.inf
        peaks = [0 * max_norm(leaf) for leaf in jax.tree.leaves(y)]
        return cls(far, far, far, nothing, peaks)

    @property
    def is_reached(self) -> Bool[Array, ""]:
        """Whether f is small beside y, entry by entry.

        An entry may vanish beside others, up to rounding that no step makes smaller.
        """
        rounding = (self.rough <= 1) & (self.since >= _PATIENCE)
        return (self.size <= 1) | rounding

    def after(
        self,
        fn: Callable[..., Any],
        y: PyTree[Array],
        f: PyTree[Array],
        args: Any,
        solver: Any,
    ) -> "Convergence":
        """The same with f at one more y.

        **Arguments:** `fn`, the map g, and what else it returns; `solver`, of whose
        `rtol`, `atol` and `norm` it is.
        """
        # It decides when to stop, and has no derivative.
        f, y, args = (
            jax.tree.map(lambda x: lax.stop_gradient(x) if eqx.is_array(x) else x, tree)
            for tree in (f, y, args)
        )
        rtol, atol, norm = solver.rtol, solver.atol, solver.norm
        if atol is not None:
            size = norm(step_over_tolerance(f, y, rtol, atol, power=0.75))
            return Convergence(size, self.rough, self.least, self.since, self.peaks)
        relative = machine_epsilon(y) ** 0.75 if rtol is None else rtol
        entrywise = jax.tree.map(lambda a: relative * jnp.abs(a), y)
        beside = jax.tree.map(lambda a: relative * max_norm(a) + 0 * a, y)
        pairs = zip(jax.tree.leaves(y), self.peaks, strict=True)
        peaks = [jnp.maximum(peak, max_norm(leaf)) for leaf, peak in pairs]
        f = _ignore_zeros(lambda z: fn(z, args)[0], y, f, peaks)
        size, rough = norm(relative_to(f, entrywise)), norm(relative_to(f, beside))
        since = jnp.where(size < self.least, 0 * self.since, self.since + 1)
        least = jnp.minimum(size, self.least)
        return Convergence(size, rough, least, since, peaks)


def _ignore_zeros(function: Callable, y, f: PyTree[Array], peaks: list[Array]):
    """f, and 0 in entries of y that go to a fixed point at zero.

    Such a one is approached for ever, and f is never small beside y. An entry is there
    if it is rounding of what it was, and g of zero is zero.
    """
    eps = machine_epsilon(y)
    peaks = jax.tree.unflatten(jax.tree.structure(y), peaks)

    def small(y, f, peak):
        return (jnp.maximum(jnp.abs(y), jnp.abs(f)) <= eps * peak) & (f != 0)

    here = jax.tree.map(small, y, f, peaks)

    def vanishes():
        zeroed = function(jax.tree.map(lambda a, z: jnp.where(z, 0, a), y, here))
        each = jax.tree.map(
            lambda g, f, z: jnp.all(~z | (jnp.abs(g) <= eps**2 * jnp.abs(f))),
            *(zeroed, f, here),
        )
        return jnp.all(jnp.stack(jax.tree.leaves(each)))

    wanted = jnp.any(jnp.stack([jnp.any(z) for z in jax.tree.leaves(here)]))
    gone = test_where(wanted, vanishes)
    return jax.tree.map(lambda f, z: jnp.where(z & gone, 0, f), f, here)
