"""Steps against what is asked of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from .._sizes import largest, precision


def over_tolerance(step, y, rtol: float | None, atol: float | None, *, power: float):
    """`step` over `atol` + `rtol` |y|; None is a power of the precision."""
    default = precision(y) ** power
    relative, absolute = (default if t is None else t for t in (rtol, atol))
    return jax.tree.map(lambda d, a: d / (absolute + relative * jnp.abs(a)), step, y)


def relative_to(step: PyTree[Array], tolerance: PyTree[Array]) -> PyTree[Array]:
    """`step` over `tolerance`, where nothing over nothing is nothing."""
    return jax.tree.map(
        lambda d, t: jnp.where(d == 0, 0, d / jnp.where(d == 0, 1, t)), step, tolerance
    )


def is_straight(
    function: Callable, y: PyTree[Array], value, step, change, reach: float
) -> Bool[Array, ""]:
    """Whether f is linear along a multiple of a step as far as it is known.

    `change` is A `step`. Where f is straight over `reach` times the step that makes it
    vanish, that step is small by the measure of f itself, in whatever units y is: what
    is left of f is rounding, of constants that y need not be comparable with.
    """
    far = function(jax.tree.map(lambda a, s: a + reach * s, y, step))

    def one(far, value, change):
        return jnp.abs(far - value - reach * change) <= reach / 4 * largest(value)

    each = jax.tree.map(one, far, value, change)
    # What vanishes has nothing to be compared with.
    known = [
        jnp.all(a) | (largest(f) == 0)
        for a, f in zip(jax.tree.leaves(each), jax.tree.leaves(value), strict=True)
    ]
    return jnp.all(jnp.stack(known))


def true_where(wanted: Bool[Array, ""], test: Callable[[], Array]) -> Bool[Array, ""]:
    """`wanted and test()`; of a batch, `test` runs if any member wants it."""
    # A loop and not `cond`, which a batch turns into code that always runs, and which
    # `shard_map` refuses there.
    _, found = jax.lax.while_loop(
        lambda carry: carry[0],
        lambda carry: (carry[0] & False, test()),
        (wanted, wanted & False),
    )
    return found
