"""Validation of the arguments of implicit layers."""

import contextlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from .._jaxpr._tracing import explain_derivative_errors, explain_tracer_errors
from .._types import PyTree
from .._validation import function_of, is_traced, not_negative


def floating(name: str, tree: PyTree) -> PyTree[Array]:
    """`tree` of arrays, all of a floating type."""
    arrays = jax.tree.map(jnp.asarray, tree)
    for array in jax.tree.leaves(arrays):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(
                f"{name} must hold floating arrays, got dtype {array.dtype}; write 1.0 "
                "for 1, and a complex number as its two parts"
            )
    return arrays


def in_type_of(
    name: str, function: Callable, y: PyTree[Array], args: PyTree
) -> tuple[PyTree[Array], PyTree]:
    """y in the type of what `function` makes of it, and the shapes of that.

    A search cannot change the type on its way. Python's numbers have none of their own.
    """
    function_of(name, function, ("y", "args"))
    while True:
        with explain_tracer_errors(name, function):
            result = eqx.filter_eval_shape(function, y, args)
        for leaf in jax.tree.leaves(result):
            if not hasattr(leaf, "dtype") or jnp.iscomplexobj(leaf):
                raise ValueError(
                    f"{name} must return real arrays made of y, got {leaf!r:.60}; "
                    "write a complex equation as its two parts"
                )
        dtypes = [leaf.dtype for leaf in jax.tree.leaves(result)]
        leaves, structure = jax.tree.flatten(y)
        if jax.tree.structure(result) != structure:
            dtypes = (
                [jnp.result_type(float, *dtypes)] * len(leaves) if dtypes else leaves
            )
        new = [
            a.astype(jnp.result_type(a, b)) for a, b in zip(leaves, dtypes, strict=True)
        ]
        y = jax.tree.unflatten(structure, new)
        if all(a.dtype == b.dtype for a, b in zip(leaves, new, strict=True)):
            return y, result


def check_fits(name: str, like: str, y: PyTree[Array], result: PyTree) -> None:
    """Refuse what has not the structure and the shapes of y."""
    want, have = (jax.tree.map(jnp.shape, tree) for tree in (y, result))
    if jax.tree.structure(y) != jax.tree.structure(result) or want != have:
        raise ValueError(
            f"{name} must return as many numbers as {like}, in the same structure: "
            f"got {have}, expected {want}"
        )


def check_tolerances(rtol: Any, atol: Any) -> None:
    """Raise `ValueError` for those that no step can meet."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None:
            not_negative(name, tolerance)
    if rtol is not None and not is_traced(rtol) and rtol == 0 and not atol:
        raise ValueError(
            "rtol must be positive where no atol is, got 0; None is as small as "
            "rounding allows"
        )


def explain_derivatives(
    name: str, function: Callable, mode: str
) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` where JAX cannot differentiate it by the adjoint of a mode."""
    forward = f"{REVERSE_ONLY}; {_REVERSED}"
    if name == "residuals":
        # The solvers of least squares push forward, whatever the adjoint.
        forward = f"{REVERSE_ONLY}; {_SQUARED}"
    elif mode == "reverse":
        forward = _ASKED_FORWARD
    reverse = f"{FORWARD_ONLY}; {UNROLL}"
    return explain_derivative_errors(name, function, forward=forward, reverse=reverse)


_REVERSED = (
    "take adjoint=implicit.ImplicitAdjoint(mode='reverse') and the default solver, or "
    "write its derivative as jax.custom_jvp"
)
_SQUARED = (
    "write its derivative as jax.custom_jvp, or give half the sum of their squares to "
    "implicit.minimise"
)
_ASKED_FORWARD = (
    "is differentiated forward, which neither adjoint=ImplicitAdjoint(mode='reverse') "
    "nor a jax.custom_vjp in it can be; take jax.grad or jax.jacrev, in a fit "
    "LevenbergMarquardt(mode='reverse'), and the default solver and linear solver, or "
    "the default adjoint and jax.custom_jvp"
)
