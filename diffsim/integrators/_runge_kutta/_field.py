"""`Field`: the right-hand sides of one step, closed over no array."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._primitives import hoisted


#: (consts, t, y) ↦ dy/dt.
Rate = Callable[[Any, Array, PyTree[Array]], PyTree[Array]]


class Field(NamedTuple):
    """dy/dt = `implicit` + `explicit`, and what both depend on besides t and y.

    `explicit` is None where the whole field is implicit. `consts` are every array that
    the rates close over, parameters among them, so that a rule of derivatives is told
    of all of them.
    """

    implicit: Rate
    explicit: Rate | None
    consts: tuple[Any, Any]


def field_of(terms, t: Array, y: PyTree[Array], args: Any, *, split: bool) -> Field:
    """The field of one term, or with `split` of an explicit and an implicit one."""
    if not split:
        rate, consts = _rate(terms, t, y, args)
        return Field(rate, None, (consts, ()))
    assert isinstance(terms, diffrax.MultiTerm)
    explicit, implicit = terms.terms
    rate, consts = _rate(implicit, t, y, args)
    other, others = _rate(explicit, t, y, args)
    return Field(rate, other, (consts, others))


def length_of(terms, t0: Array, t1: Array) -> Array:
    """The length of the step, negative where it goes back in time."""
    return jnp.asarray(jax.tree.leaves(terms.contr(t0, t1))[0])


def _rate(term, t: Array, y: PyTree[Array], args: Any) -> tuple[Rate, Any]:
    # By a control of one, under which several terms add up to their sum.
    one = jax.tree.map(jnp.ones_like, term.contr(t, t))
    return hoisted(lambda t, y: term.vf_prod(t, y, args, one), t, y)
