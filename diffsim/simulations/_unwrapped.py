"""Terms as they were given, out of what Diffrax makes of them to run either way."""

from typing import Any, TypeVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array


Term = TypeVar("Term", bound=diffrax.AbstractTerm)


def unwrapped(
    terms: Any, kind: type[Term], t0: Array, t1: Array
) -> tuple[Term, Array] | None:
    """The one term of a kind in `terms`, and the direction of its time.

    Diffrax runs everything on a clock that runs forwards. None where there is none.
    """

    def fits(x):
        return isinstance(x, kind)

    found = [x for x in jax.tree.leaves(terms, is_leaf=fits) if fits(x)]
    if len(found) != 1 or isinstance(terms, diffrax.MultiTerm):
        return None
    if terms is found[0]:
        return found[0], jnp.ones_like(t0)
    span = t1 - t0
    lengths = jnp.asarray(jax.tree.leaves(terms.contr(t0, t1))[0])
    return found[0], jnp.where(span == 0, 1, lengths / jnp.where(span == 0, 1, span))
