"""Jacobian of a vector function, in chunks, in forward or reverse mode."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


def value_and_jacobian(
    function: Callable, at: Array, *, chunk: int = 128, mode: str = "auto"
) -> tuple[Array, Array, Any]:
    """`rows, aux = function(at)` and the derivative of the rows, (row, parameter).

    **Arguments:** `chunk`, how many directions travel together, sharing one run of
    `function`; `mode`, "forward", "reverse", or "auto": forward unless there are more
    parameters than rows.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode must be 'auto', 'forward' or 'reverse', got {mode!r}")
    if mode == "auto":
        rows, _ = jax.eval_shape(function, at)
        mode = "reverse" if at.size > rows.size else "forward"
    if mode == "reverse":
        rows, pull, aux = jax.vjp(function, at, has_aux=True)
        jacobian, _ = _in_chunks(lambda w: (pull(w)[0], ()), rows, chunk)
        return rows, jacobian, aux

    def push(direction: Array):
        rows, along, aux = jax.jvp(function, (at,), (direction,), has_aux=True)
        return along, (rows, aux)

    columns, (rows, aux) = _in_chunks(push, at, chunk)
    return rows, columns.T, aux


def _in_chunks(linear: Callable, like: Array, chunk: int) -> tuple[Array, Any]:
    """`linear` along every axis of the space of `like`; its second output just once."""
    batched = jax.vmap(linear, out_axes=(0, None))
    directions = jnp.eye(like.size, dtype=like.dtype)
    if like.size <= chunk:
        return batched(directions)
    count = -(-like.size // chunk)
    padded = jnp.pad(directions, ((0, count * chunk - like.size), (0, 0)))
    blocks, rest = jax.lax.map(batched, padded.reshape(count, chunk, like.size))
    blocks = blocks.reshape(count * chunk, -1)[: like.size]
    return blocks, jax.tree.map(lambda x: x[0], rest)
