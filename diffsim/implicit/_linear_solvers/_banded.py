"""Band matrices: diagonal, tridiagonal and wider ones."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ._block_tridiagonal import (
    back_substitution,
    back_substitution_transposed,
    cyclic_reduction,
)
from ._linear_solver import (
    AbstractLinearSolver,
    Operator,
    Solved,
    direct_solution,
    only_array,
    unless_irregular,
    unless_singular,
)


class Diagonal(AbstractLinearSolver):
    r"""Diagonal matrix, $A_{ij} = 0$ for $i \ne j$: equations of one unknown each.

    ```python
    def balance(y, heating):  # bodies that are heated and radiate, each for itself
        return heating + 0.1 * y - y**4

    heating = jnp.linspace(1.0, 2.0, 1000)
    adjoint = implicit.ImplicitAdjoint(implicit.Diagonal())
    implicit.root(balance, jnp.ones(1000), heating, adjoint=adjoint)
    ```

    The diagonal is $A\,(1, 1, \ldots)$, one product for any number of unknowns, and a
    solve is a division. A zero gives NaN there and leaves the others alone.

    An equation that does depend on another unknown gives NaN.
    """

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del hint, transposed
        return jax.tree.map(
            lambda d: 1 / jnp.where(d == 0, jnp.nan, d),
            operator(jax.tree.map(jnp.ones_like, y)),
        )

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del operator
        return direct_solution(jax.tree.map(jnp.multiply, state, b))

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        return self.solve(state, transposed, b)

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        return unless_singular(self, state, operator, y, transposed=transposed)


class Tridiagonal(AbstractLinearSolver):
    r"""Tridiagonal matrix, for unknowns of shape (..., n):

    $$l_i x_{i-1} + d_i x_i + u_i x_{i+1} = b_i .$$

    ```python
    def bratu(u, strength):  # u'' + λ eᵘ = 0 between walls, in 100 points
        laplacian = jnp.convolve(u, jnp.array([1.0, -2.0, 1.0]), "same")
        return laplacian + strength * jnp.exp(u) / 101**2

    adjoint = implicit.ImplicitAdjoint(implicit.Tridiagonal())
    implicit.root(bratu, jnp.zeros(100), 1.0, adjoint=adjoint)
    ```

    Diffusion in one dimension, for instance; leading axes are systems of their own. The
    diagonals are read off three products with the operator, and each solve is one
    elimination with pivots in O(n), LAPACK's or the GPU library's.
    """

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del hint
        array = only_array(y, "Tridiagonal()", "n")
        bands = read_bands(operator, y, array, 1, 1)
        return transpose_bands(bands, 1, 1)[0] if transposed else bands

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del operator
        return direct_solution(jax.tree.map(lambda a: solve_tridiagonal(state, a), b))

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        return self.solve(transpose_bands(state, 1, 1)[0], transposed, b)

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        bands = transpose_bands(state, 1, 1)[0] if transposed else state

        def product(v):
            return jax.tree.map(lambda a: multiply_banded(bands, a), v)

        return unless_irregular(product, state, operator, y)


class Banded(AbstractLinearSolver):
    r"""Banded matrix, for unknowns of shape (..., n):

    $$\sum_{k=-l}^{u} a_{i,k}\,x_{i+k} = b_i .$$

    ```python
    def beam(u, load):  # u'''' = load, clamped ends, 50 points
        stencil = jnp.array([1.0, -4.0, 6.0, -4.0, 1.0])
        return jnp.convolve(u, stencil, "same") - load

    adjoint = implicit.ImplicitAdjoint(implicit.Banded(2, 2))
    implicit.root(beam, jnp.zeros(50), 1e-4, adjoint=adjoint)
    ```

    Fourth derivatives and wide stencils in one dimension, for instance. The diagonals
    are read off $l + u + 1$ products; the rows are taken $\max(l, u)$ at a time, as the
    blocks of `BlockTridiagonal`.

    **Arguments**

    - `lower`, `upper`: diagonals below and above the main one.

    **Good values:** up to ten each. Entries outside the band give NaN.
    """

    lower: int = eqx.field(static=True)
    upper: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if min(self.lower, self.upper) < 0 or self.lower == self.upper == 0:
            raise ValueError(
                "lower and upper must be 0 or more, and not both 0, got "
                f"{self.lower} and {self.upper}"
            )

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del hint
        array = only_array(y, "Banded(...)", "n")
        widths = (self.upper, self.lower) if transposed else (self.lower, self.upper)
        bands = read_bands(operator, y, array, *widths)
        bands, *widths = (
            transpose_bands(bands, *widths) if transposed else (bands, *widths)
        )
        return cyclic_reduction(*banded_to_blocks(bands, *widths))

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del operator
        return direct_solution(
            jax.tree.map(lambda a: self._blockwise(back_substitution, state, a), b)
        )

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        del transposed
        by = back_substitution_transposed
        return direct_solution(jax.tree.map(lambda a: self._blockwise(by, state, a), b))

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        return unless_singular(self, state, operator, y, transposed=transposed)

    def _blockwise(self, solve, state, b: Array) -> Array:
        size, n = max(self.lower, self.upper), b.shape[-1]
        padded = jnp.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, -n % size)])
        x = solve(state, padded.reshape(*b.shape[:-1], -1, size))
        return x.reshape(*b.shape[:-1], -1)[..., :n]


def read_bands(operator, y, array: Array, lower: int, upper: int) -> Array:
    """A[i, i + k - lower] as (..., k, i), zero outside the matrix."""
    n, width = array.shape[-1], lower + upper + 1
    place = jnp.arange(n)

    def product(offset):
        seed = (place % width == offset).astype(array.dtype)
        given = jax.tree.unflatten(
            jax.tree.structure(y), [jnp.broadcast_to(seed, array.shape)]
        )
        return jax.tree.leaves(operator(given))[0]

    found = jax.vmap(product)(jnp.arange(width))
    rows = []
    for k in range(-lower, upper + 1):
        at = place + k
        row = jnp.moveaxis(found[at % width, ..., place], 0, -1)
        rows.append(jnp.where((at >= 0) & (at < n), row, 0))
    return jnp.stack(rows, axis=-2)


def transpose_bands(bands: Array, lower: int, upper: int) -> tuple[Array, int, int]:
    """Bands of Aᵀ, whose lower diagonals are the upper ones of A."""
    n = bands.shape[-1]
    rows = []
    for k in range(-upper, lower + 1):
        moved = jnp.roll(bands[..., lower - k, :], -k, axis=-1)
        at = jnp.arange(n) + k
        rows.append(jnp.where((at >= 0) & (at < n), moved, 0))
    return jnp.stack(rows, axis=-2), upper, lower


def solve_tridiagonal(bands: Array, b: Array) -> Array:
    below, middle, above = (bands[..., k, :] for k in range(3))
    if b.shape[-1] < 3:
        raise ValueError(
            f"Tridiagonal() needs 3 unknowns or more, got {b.shape[-1]}; use Dense()"
        )
    return jax.lax.linalg.tridiagonal_solve(below, middle, above, b[..., None])[..., 0]


def multiply_banded(bands: Array, x: Array) -> Array:
    below, middle, above = (bands[..., k, :] for k in range(3))
    # The corners of the bands are zero, so what is rolled around does not count.
    return middle * x + below * jnp.roll(x, 1, -1) + above * jnp.roll(x, -1, -1)


def banded_to_blocks(
    bands: Array, lower: int, upper: int
) -> tuple[Array, Array, Array]:
    """The bands as blocks of a block tridiagonal matrix, filled up by ones."""
    size, n = max(lower, upper), bands.shape[-1]
    missing = -n % size
    bands = jnp.pad(bands, [(0, 0)] * (bands.ndim - 1) + [(0, missing)])
    bands = bands.at[..., lower, n:].set(1)
    # Entry (r, c) of the block beside block i is A[i size + r, (i + side) size + c].
    row, column = jnp.arange(size)[:, None], jnp.arange(size)[None]
    rows = jnp.arange((n + missing) // size)[:, None, None] * size + row

    def blocks(side):
        k = side * size + column - row + lower
        inside = (k >= 0) & (k <= lower + upper)
        taken = bands[..., jnp.clip(k, 0, lower + upper), rows]
        return jnp.where(inside, taken, 0)

    return blocks(-1), blocks(0), blocks(1)
