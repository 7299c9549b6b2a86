"""`BracketedNewton`: scalar roots in a fixed number of steps, for many at once."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import PyTree
from .._validation import count, not_negative


class BracketedSearch(NamedTuple):
    """Where a search ended, and whether it had converged; `values` are those of f."""

    y: Array
    reached: Bool[Array, "..."]
    ends: Float[Array, "2 ..."]
    values: Float[Array, "2 ..."]
    last_ends: Float[Array, "2 ..."]
    last_values: Float[Array, "2 ..."]


class BracketedNewton(eqx.Module):
    r"""Newton's method held in a bracket, a fixed number of steps of it.

    ```python
    def lambert(x, level):  # x eˣ = level, for a thousand of them at once
        return x * jnp.exp(x) - level

    solver = implicit.BracketedNewton(lower=0.0, upper=10.0)
    adjoint = implicit.ImplicitAdjoint(implicit.Diagonal())
    levels = jnp.geomspace(1e-3, 1e3, 1000)
    implicit.root(lambert, jnp.ones(1000), levels, solver=solver, adjoint=adjoint)
    ```

    A step that leaves the bracket, or is longer than half of the last but one, is one
    of the secant instead, and the next ones such are bisections. Nothing is tested on
    the way, so that a batch of equations is one loop without a branch; each entry of y
    is solved for on its own, by the same residual. For a guess outside of the bracket
    the search begins where the secant of its ends vanishes.

    **Arguments**

    - `lower`, `upper`: where f has different signs; arrays that broadcast to y.
    - `steps`: how many.
    - `tolerance`: no more follow where the last one moved no entry by more than this
        share of it. 0 takes all; at simple roots 1e-8 leaves its square.

    **Good values:** `steps` 12 where f is smooth, 60 for anything;
    `ImplicitAdjoint(Diagonal())` for an array of equations, and `ImplicitAdjoint()` for
    one under `vmap`, where each has its own status.

    **Limits:** f real and continuous (mathematics). Without a change of sign, where it
    changes at a pole or a jump, and where the last step was not small, the answer of
    `root` is NaN.
    """

    lower: Any
    upper: Any
    steps: int = eqx.field(static=True, default=60, converter=partial(count, "steps"))
    tolerance: float = eqx.field(
        static=True, default=0.0, converter=partial(not_negative, "tolerance")
    )

    def found(
        self, function: Callable[..., Any], y: Array, theta: PyTree
    ) -> tuple[Array, Array]:
        """The root, NaN where the bracket holds none, and whether it was reached."""
        search = self.search(function, y, theta)
        (lower, upper), (below, above) = search.ends, jnp.sign(search.values)
        is_end = (below == 0) | (above == 0)
        y = jnp.where(below == 0, lower, jnp.where(above == 0, upper, search.y))
        return jnp.where(below * above <= 0, y, jnp.nan), search.reached | is_end

    def search(
        self, function: Callable[..., Any], y: Array, theta: PyTree
    ) -> BracketedSearch:
        """Where the steps lead from y, or from the secant of both ends."""

        bounds = (jnp.asarray(x, y.dtype) for x in (self.lower, self.upper))
        ends = jnp.stack([jnp.broadcast_to(x, y.shape) for x in bounds])
        values = jax.vmap(lambda x: function(x, theta))(ends)
        below, root_eps = jnp.sign(values[0]), _root_of_epsilon(y)
        width = jnp.abs(ends[1] - ends[0])

        def step(_, carry):
            y, bracket, values, (last, before), halves = carry
            value, slope = jax.jvp(
                lambda z: function(z, theta), (y,), (jnp.ones_like(y),)
            )
            is_lower = jnp.sign(value) == below
            side = jnp.stack([is_lower, ~is_lower])
            bracket = lower, upper = jnp.where(side, y, bracket)
            values = jnp.where(side, value, values)
            newton = y - value / jnp.where(slope == 0, jnp.nan, slope)
            move = jnp.abs(newton - y)
            # At the root steps are rounding, which may lead out of a bracket that ends
            # there.
            still = move <= 4 * root_eps**2 * jnp.abs(y)
            newton = jnp.where(still, jnp.clip(newton, lower, upper), newton)
            # A step that is NaN is not taken.
            taken = (newton >= lower) & (newton <= upper)
            # In a bracket that was halved twice it may be as long as the last halving.
            shorter = 2 * move <= (1 + 4 * root_eps**2) * before
            taken &= shorter | (move <= root_eps * jnp.abs(y))
            other = jnp.where(halves, (lower + upper) / 2, _secant(bracket, values))
            new = jnp.where(taken, newton, other)
            new = jnp.where(value == 0, y, new)
            # A secant may be short far from the root, and a bracket leaves no square.
            left = (upper - lower) / root_eps
            moved = jnp.where(taken, jnp.abs(new - y), left)
            done = (value == 0) | (left <= root_eps * width)
            moved = jnp.where(done, 0, moved)
            return new, bracket, values, jnp.stack([moved, last]), halves | ~taken

        inside = (y >= ends[0]) & (y <= ends[1])
        start = jnp.where(inside, y, _secant(ends, values))
        carry = start, ends, values, jnp.stack([width, width]), jnp.zeros(y.shape, bool)
        y, *last_bracket, (last, _), _ = self._repeated(step, carry)
        # A step of Newton's leaves its square.
        reached = last <= root_eps * (jnp.abs(y) + root_eps * width)
        return BracketedSearch(y, reached, ends, values, *last_bracket)

    def _repeated(self, step: Callable[..., Any], start: tuple) -> tuple:
        if self.tolerance == 0:
            return jax.lax.fori_loop(0, self.steps, step, start)
        width = self.tolerance * start[3][0]

        def goes_on(carry):
            count, (y, _, _, (last, _), _) = carry
            # A step that is NaN goes on.
            far = ~(last <= self.tolerance * (jnp.abs(y) + width))
            return (count < self.steps) & jnp.any(far)

        def counted(carry):
            count, inside = carry
            return count + 1, step(count, inside)

        return jax.lax.while_loop(goes_on, counted, (0, start))[1]

    def vanishes(
        self, function: Callable[..., Any], y: Array, theta: PyTree
    ) -> Bool[Array, ""]:
        """Whether f is far smaller at y than beside it, unlike at a pole or a jump."""
        root_eps = _root_of_epsilon(y)
        width = jnp.abs(jnp.asarray(self.upper, y.dtype) - self.lower)
        # As far as the last step may have been, which left its square.
        beside = root_eps * (jnp.abs(y) + 4 * root_eps * width)
        below, here, above = jnp.abs(
            jax.vmap(lambda x: function(x, theta))(
                jnp.stack([y - beside, y, y + beside])
            )
        )
        return jnp.all((here == 0) | (2 * here <= jnp.maximum(below, above)))


def _secant(bracket: Array, values: Array) -> Array:
    """Where a line through both ends vanishes; the middle where there is no such."""
    (lower, upper), (below, above) = bracket, values
    y = lower + (upper - lower) * (
        below / jnp.where(below == above, jnp.nan, below - above)
    )
    inside = (y >= lower) & (y <= upper)
    return jnp.where(inside, y, (lower + upper) / 2)


def _root_of_epsilon(y: Array) -> float:
    return float(jnp.finfo(y.dtype).eps) ** 0.5
