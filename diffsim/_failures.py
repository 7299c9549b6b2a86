"""What a failure does: raise for a person, poison inside a fit or a sweep."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from ._surroundings import SURROUNDINGS, Surrounding


#: Part of the key by which JAX finds what it has compiled, or a `predict` that was
#: compiled outside would raise inside.
_poisoning = jax.make_user_context(False)


@contextlib.contextmanager
def failures_as_nan():
    """Inside, what has `throw=None` returns NaN and a RESULTS instead of raising:
    `simulate`, and the layers of `diffsim.implicit`.

    `fit`, `fisher` and `sweep` call `predict` inside it, so that one trial step or one
    member of a batch that fails does not end the others.
    """
    with _poisoning(True):
        yield


SURROUNDINGS.append(
    Surrounding(lambda: _poisoning.value, lambda anew: failures_as_nan())
)


def quiet(throw: bool | None) -> bool:
    """Whether `throw` makes a failure NaN here."""
    return throw is None and _poisoning.value


def throws(throw: bool | None) -> bool:
    """Whether `throw` makes a failure raise here."""
    return throw is True or (throw is None and not _poisoning.value)


def poisoned(tree: PyTree, ok: Bool[Array, "*shape"]) -> PyTree:
    """`tree`, and NaN in values and derivatives where not `ok`."""
    # A product and not `where`: `where` would hand out a derivative of zero.
    return jax.tree.map(
        lambda x: (
            x * jnp.where(ok, 1, jnp.nan).astype(x.dtype)
            if eqx.is_inexact_array(x)
            else x
        ),
        tree,
    )


def nan_after(
    states: PyTree, reached: Bool[Array, " time"], ok: Bool[Array, ""]
) -> PyTree:
    """`states` with NaN at the times that were not `reached`, on the first axis.

    Derivatives are NaN as well, but where a run that is `ok` ended before: what comes
    after its end depends on nothing.
    """

    def one(x, reached):
        if not eqx.is_inexact_array(x):
            return x
        return jnp.where(reached | ~ok, poisoned(x, reached | ok), jnp.nan)

    return jax.vmap(lambda x, r: jax.tree.map(lambda a: one(a, r), x))(states, reached)


def is_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every float in `tree` is finite."""
    leaves = [x for x in jax.tree.leaves(tree) if eqx.is_inexact_array(x)]
    # ∞ - ∞ is no number, and sums of floats are faster than `all`, of singles thrice.
    # Not 0 · ∞: on CPUs XLA makes a field of zeros for it.
    sums = [jnp.isfinite(jnp.sum(x - x)) for x in leaves]
    return jnp.all(jnp.stack(sums or [jnp.asarray(True)]))
