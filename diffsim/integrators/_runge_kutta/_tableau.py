"""`Tableau`: Butcher tableau of an ESDIRK or IMEX method."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree


class Tableau(NamedTuple):
    r"""Butcher tableau of $s$ stages, the first of them known at the start of the step.

    Stage i is at time `nodes[i]`; `implicit[i]` and `explicit[i]` weigh the slopes
    before it, `gamma` its own implicit slope. `predictor[i]` weighs earlier implicit
    slopes for a guess. `weights` and `explicit_weights` give the step, `errors` its
    error estimate, None where there is none. What is explicit is None where the whole
    field is implicit.
    """

    order: int
    nodes: np.ndarray
    gamma: float
    implicit: np.ndarray
    explicit: np.ndarray | None
    predictor: np.ndarray
    weights: np.ndarray
    explicit_weights: np.ndarray | None
    errors: np.ndarray | None

    @property
    def stages(self) -> int:
        """Number of stages, the known one included."""
        return len(self.nodes)

    @property
    def ends_in_last_stage(self) -> bool:
        """Whether the slopes of the last stage are the first ones of the next step."""
        last = self.implicit[-1] + self.gamma * np.eye(self.stages)[-1]
        if not np.array_equal(last, self.weights):
            return False
        if self.explicit is None or self.explicit_weights is None:
            return True
        return np.array_equal(self.explicit[-1], self.explicit_weights)


class Row(NamedTuple):
    """Rows of a tableau, of every stage but the first, for a loop over them."""

    index: Array
    nodes: Array
    implicit: Array
    explicit: Array | None
    predictor: Array


def rows(tableau: Tableau) -> Row:
    explicit = tableau.explicit
    return Row(
        jnp.arange(1, tableau.stages),
        jnp.asarray(tableau.nodes[1:]),
        jnp.asarray(tableau.implicit[1:]),
        None if explicit is None else jnp.asarray(explicit[1:]),
        jnp.asarray(tableau.predictor[1:]),
    )


def from_diffrax(
    published: "diffrax.ButcherTableau | diffrax.MultiButcherTableau", *, order: int
) -> Tableau:
    """The published coefficients as Diffrax has them, rows filled up with zeros."""
    several = isinstance(published, diffrax.MultiButcherTableau)
    explicit, implicit = published.tableaus if several else (None, published)
    assert implicit.a_diagonal is not None and implicit.a_predictor is not None
    return Tableau(
        order,
        np.append(0, implicit.c),
        float(implicit.a_diagonal[1]),
        _square(implicit.a_lower),
        None if explicit is None else _square(explicit.a_lower),
        _square(implicit.a_predictor),
        implicit.b_sol,
        None if explicit is None else explicit.b_sol,
        implicit.b_error,
    )


def stiffly_accurate(
    order: int,
    gamma: float,
    implicit: tuple[Sequence[float], ...],
    explicit: tuple[Sequence[float], ...] | None = None,
) -> Tableau:
    """Tableau of steps without an error estimate, whose weights are the last row.

    Stages guess the slope of the one before.
    """
    lower = _square(implicit)
    full = lower + gamma * np.diag(np.arange(len(lower)) > 0)
    other = None if explicit is None else _square(explicit)
    return Tableau(
        order,
        full.sum(axis=1),
        gamma,
        lower,
        other,
        np.eye(len(lower), k=-1),
        full[-1],
        None if other is None else other[-1],
        None,
    )


def _square(rows: Sequence[Any]) -> np.ndarray:
    """Strictly lower triangular; the first stage has no row."""
    square = np.zeros((len(rows) + 1, len(rows) + 1))
    for i, row in enumerate(rows):
        square[i + 1, : len(row)] = row
    return square


def add_scaled(y: PyTree[Array], length: Array, rate: PyTree[Array]) -> PyTree[Array]:
    """y + length · rate, in the type of y."""
    return jax.tree.map(lambda a, b: a + length.astype(a.dtype) * b, y, rate)


def linear_combination(
    weights: np.ndarray, slopes: Sequence[PyTree[Array]]
) -> PyTree[Array]:
    """Σ w k over slopes written out, without those of weight zero."""
    total: Any = jax.tree.map(jnp.zeros_like, slopes[0])
    for weight, slope in zip(weights.tolist(), slopes, strict=False):
        if weight != 0:
            total = jax.tree.map(lambda a, b, w=weight: a + w * b, total, slope)
    return total


def stacked_linear_combination(weights: Array, slopes: PyTree[Array]) -> PyTree[Array]:
    """Σ w k over slopes that are stacked along the first axis."""
    return jax.tree.map(
        lambda k: jnp.tensordot(
            weights.astype(k.dtype), k, axes=1, precision="highest"
        ),
        slopes,
    )


def empty_stages(like: PyTree[Array], stages: int) -> PyTree[Array]:
    return jax.tree.map(lambda k: jnp.zeros((stages, *k.shape), k.dtype), like)


def with_stage(slopes: PyTree[Array], index, slope: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, k: a.at[index].set(k), slopes, slope)
