"""Derivatives of one run: of its outputs, by the floats that are swept."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _tuning
from .._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY
from .._jaxpr._tracing import explain_derivative_errors
from .._parameter_selection import Selection
from .._results import RESULTS, is_finite
from .._types import PyTree
from .._validation import one_of
from ._sweep_result import numbers_in


DERIVATIVES = "gradient", "jacobian", "fisher"
_OTHER = "and elsewhere lacks the other one; write what lacks it as jax.custom_jvp"


def check_derivative(derivative: Any, selection: Selection):
    """Raise for what is no kind of derivative, or where no float is swept."""
    if derivative is None:
        return
    one_of("derivative", derivative, DERIVATIVES)
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

    NaN where the run failed; one that is not finite is a failure of its own. A function
    that has but the other mode is differentiated by that.
    """

    def numbers(vector):
        outcome = run(vector)
        return eqx.filter(numbers_in(outcome[0]), eqx.is_inexact_array), outcome

    shapes = jax.tree.leaves(jax.eval_shape(numbers, floats)[0])
    size = sum(int(np.prod(x.shape)) for x in shapes)
    _check_outputs(kind, shapes)
    modes = [jax.jacfwd, jax.jacrev]
    if floats.size > _tuning.RUNS_OF_REVERSE_MODE * size:
        modes.reverse()
    jacobian, outcome = _by_either(modes, numbers, floats)
    if kind == "fisher":
        rows = [x.reshape(-1, floats.size) for x in jax.tree.leaves(jacobian)]
        jacobian = sum(
            jnp.einsum("im,in->mn", x.conj(), x, precision="highest").real for x in rows
        )
    failed = ~jnp.asarray(outcome[1] == RESULTS.successful)
    usable = failed | is_finite(jacobian)
    status = RESULTS.where(usable, outcome[1], RESULTS.derivative_not_finite)
    jacobian = jax.tree.map(lambda x: jnp.where(failed, jnp.nan, x), jacobian)
    return (outcome[0], status), jacobian


def _by_either(
    modes: list[Any], numbers: Callable, floats: Array
) -> tuple[PyTree[Array], tuple[PyTree, RESULTS]]:
    """By the first mode, or by the second where a function lacks the first."""
    first, second = modes
    lacks = {"forward": REVERSE_ONLY, "reverse": FORWARD_ONLY}
    try:
        with explain_derivative_errors("predict", **lacks):
            return first(numbers, has_aux=True)(floats)
    except ValueError as error:
        if not any(text in str(error) for text in lacks.values()):
            raise
    both = {
        "forward": f"{REVERSE_ONLY}, {_OTHER}",
        "reverse": f"{FORWARD_ONLY}, {_OTHER}",
    }
    with explain_derivative_errors("predict", **both):
        return second(numbers, has_aux=True)(floats)


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
        by_path, begin = {}, 0
        for path in dict.fromkeys(part.path for part in self.selection.parts):
            parts = [part for part in self.selection.parts if part.path == path]
            size = sum(part.size for part in parts)
            shape = parts[0].shape if len(parts) == 1 else (size,)
            by_path[path] = jax.tree.map(
                functools.partial(_entries, begin, begin + size, shape), derivative
            )
            begin += size
        return by_path


def _entries(begin: int, end: int, shape: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    return x[..., begin:end].reshape(*x.shape[:-1], *shape)
