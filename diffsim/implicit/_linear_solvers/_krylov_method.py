"""Krylov methods of short recurrences, and what all of them share."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree


Vector = PyTree[Array]
Inner = Callable[[Vector, Vector], Array]


class AbstractKrylovMethod(eqx.Module):
    """Krylov method for A x = b from x = 0, by products with A and M⁻¹ only."""

    @abc.abstractmethod
    def iterated(
        self,
        operator: Callable[[Vector], Vector],
        b: Vector,
        *,
        precondition: Callable[[Vector], Vector],
        inner: Inner,
        tolerance: Array,
        max_steps: int,
    ) -> tuple[Vector, Array, Array]:
        """x, |b − A x| as the method knows it, and the number of its products."""


def add_scaled(a: Vector, scale: Any, b: Vector) -> Vector:
    """a + scale b."""
    return jax.tree.map(lambda x, y: x + scale * y, a, b)


def vector_norm(inner: Inner, a: Vector) -> Array:
    return jnp.sqrt(inner(a, a))


def iterate_until(
    step: Callable[[Any], Any], start: tuple, tolerance: Array, max_steps: int
) -> tuple[Any, ...]:
    """Repeat `step` until its last but one entry, the residual, is small."""

    def wanted(carry):
        *_, residual, n = carry
        return (residual > tolerance) & (n < max_steps) & jnp.isfinite(residual)

    start = (*start[:-1], jnp.asarray(start[-1]))
    return jax.lax.while_loop(wanted, step, start)
