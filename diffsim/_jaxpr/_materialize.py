"""Ways to keep XLA from working a value out wherever it is read, or from keeping it.

XLA on CPUs puts what is cheap into all that reads it: of a flux, into both of the cells
beside a face, for each of their channels, and with derivatives the flux is not cheap.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import dynamic_update_slice, optimization_barrier, platform_dependent
from jaxtyping import Array

from .._types import PyTree
from ._primitives import HashablePartial, LinearMapRules, linear


def compute_once(x: PyTree[Array]) -> PyTree[Array]:
    """The same arrays, compiled apart from what reads them.

    A pad would be worked out for every entry of every slice of it, and an iteration for
    everything that its root is in.
    """
    return optimization_barrier(x)


def compute_anew(x: Array, beside: Array) -> Array:
    """The same array, to be worked out where `beside` is.

    XLA would keep in a loop over steps what does not change from one to the next, and
    reading it may take longer.
    """
    return optimization_barrier((x, beside))[0]


def opaque_true(y: PyTree[Array]) -> Array:
    """True as far as anybody but the compiler knows; false beside NaN."""
    leaves = [leaf for leaf in jax.tree.leaves(y) if leaf.size]
    if not leaves:
        return jnp.asarray(True)
    first = leaves[0].reshape(-1)[0]
    return first == first


def divide_by_true(y: PyTree[Array], true: Array) -> PyTree[Array]:
    """`y`, divided by 1, an `opaque_true`.

    XLA works out a sum again wherever it is read, for every pair of bodies say, but a
    division once. It is exact, and Dopri8 of 5 bodies takes 1.9 instead of 6.6 µs a
    step, its gradient 12 instead of 24.
    """
    return jax.tree.map(lambda a: a / true.astype(jnp.finfo(a.dtype).dtype), y)


def materialize(fields: PyTree[Array]) -> PyTree[Array]:
    """The same arrays, on CPUs made before anything reads them; derivatives as well.

    A gas on 4096 cells of a line takes a quarter of the time, its tangents a sixth. No
    `compute_once` helps: XLA forgets it first. On other devices arithmetic costs less
    than memory, and XLA is left to choose.
    """
    leaves, structure = jax.tree.flatten(fields)
    made = linear(_MAPS, [], leaves, [jax.typeof(leaf) for leaf in leaves])
    return jax.tree.unflatten(structure, made)


def _write(known: Any, fields: Any) -> list[Array]:
    del known
    return [platform_dependent(a, cpu=_with_update, default=_identity) for a in fields]


def _with_update(a: Array) -> Array:
    """An entry is written where it stands: there has to be an array to write to."""
    return dynamic_update_slice(a, a[(slice(1),) * a.ndim], (0,) * a.ndim)


def _identity(a: Array) -> Array:
    return a


_MAPS = LinearMapRules.plain(HashablePartial(_write), HashablePartial(_write))
