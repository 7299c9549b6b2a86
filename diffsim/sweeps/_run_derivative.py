"""Derivatives of one run: of its outputs, by the floats that are swept."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._parameter_selection import Selection
from .._results import RESULTS
from .._types import PyTree
from ._sweep_result import numbers_in


DERIVATIVES = "gradient", "jacobian", "fisher"
#: Runs that reverse mode takes for a number; forward mode takes one for a parameter, or
#: less. Leapfrog of 5 bodies takes 2.5, adaptive steps 4.
_REVERSE = 4
_GRAM = "im,in->mn"


def check_derivative(derivative: Any, selection: Selection):
    """Raise for what is no kind of derivative, or where no float is swept."""
    if derivative is None:
        return
    if derivative not in DERIVATIVES:
        raise ValueError(
            f"derivative must be one of {DERIVATIVES} or None, got {derivative!r}"
        )
    if not selection.names:
        raise ValueError(
            f"derivative={derivative!r} is by the floats in over, and there are only "
            "integers or keys"
        )


def run_derivative(
    kind: str,
    run: Callable[[Array], tuple[PyTree, RESULTS]],
    floats: Float[Array, " float"],
) -> tuple[tuple[PyTree, RESULTS], PyTree[Array]]:
    """Run, and differentiate the outputs, by the cheaper mode.

    NaN where the run failed.
    """

    def numbers(vector):
        found = run(vector)
        return eqx.filter(numbers_in(found[0]), eqx.is_inexact_array), found

    shapes = jax.tree.leaves(jax.eval_shape(numbers, floats)[0])
    size = sum(int(np.prod(x.shape)) for x in shapes)
    _check_outputs(kind, shapes)
    mode = jax.jacfwd if floats.size <= _REVERSE * size else jax.jacrev
    jacobian, found = mode(numbers, has_aux=True)(floats)
    if kind == "fisher":
        rows = [x.reshape(-1, floats.size) for x in jax.tree.leaves(jacobian)]
        jacobian = sum(
            jnp.einsum("im,in->mn", x.conj(), x, precision="highest").real for x in rows
        )
    failed = ~jnp.asarray(found[1] == RESULTS.successful)
    return found, jax.tree.map(lambda x: jnp.where(failed, jnp.nan, x), jacobian)


def _check_outputs(kind: str, shapes: list[Any]):
    if not shapes:
        raise ValueError(
            f"derivative={kind!r} needs outputs that are floats, and predict returns "
            "none"
        )
    if kind == "gradient" and (len(shapes) > 1 or shapes[0].shape):
        of = ", ".join(str(x.shape) for x in shapes)
        raise ValueError(
            "derivative='gradient' needs a predict that returns one number, got floats "
            f"of shape {of}; derivative='jacobian' takes any"
        )


class Differentiated(NamedTuple):
    """Which derivative a sweep has, and by which numbers."""

    kind: str
    selection: Selection

    def arranged(self, derivative: PyTree[np.ndarray]) -> PyTree:
        """By what each path names, in its shape; Fisher information as it is."""
        if self.kind == "fisher":
            return derivative
        found, begin = {}, 0
        for path in dict.fromkeys(part.path for part in self.selection.parts):
            parts = [part for part in self.selection.parts if part.path == path]
            size = sum(part.size for part in parts)
            shape = parts[0].shape if len(parts) == 1 else (size,)
            found[path] = jax.tree.map(
                functools.partial(_entries, begin, begin + size, shape), derivative
            )
            begin += size
        return found


def _entries(begin: int, end: int, shape: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    return x[..., begin:end].reshape(*x.shape[:-1], *shape)
