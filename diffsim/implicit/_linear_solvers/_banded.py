"""Band matrices: diagonal, tridiagonal and wider ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._block_tridiagonal import (
    back_substitution,
    back_substitution_transposed,
    cyclic_reduction,
)
from ._linear_solver import (
    AbstractLinearSolver,
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

    def prepare(self, operator, y, hint=None, *, transposed=False):
        return jax.tree.map(
            lambda d: 1 / jnp.where(d == 0, jnp.nan, d),
            operator(jax.tree.map(jnp.ones_like, y)),
        )

    def solve(self, state, operator, b):
        return direct_solution(jax.tree.map(jnp.multiply, state, b))

    def solve_transpose(self, state, transposed, b):
        return self.solve(state, transposed, b)

    def verify_structure(self, state, operator, y, *, transposed=False):
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

    def prepare(self, operator, y, hint=None, *, transposed=False):
        array = only_array(y, "Tridiagonal()", "n")
        bands = _read_bands(operator, y, array, 1, 1)
        return _transpose_bands(bands, 1, 1) if transposed else bands

    def solve(self, state, operator, b):
        return direct_solution(jax.tree.map(lambda a: _solve_tridiagonal(state, a), b))

    def solve_transpose(self, state, transposed, b):
        return self.solve(_transpose_bands(state, 1, 1), transposed, b)

    def verify_structure(self, state, operator, y, *, transposed=False):
        bands = _transpose_bands(state, 1, 1) if transposed else state

        def product(x):
            below, middle, above = (bands[..., k, :] for k in range(3))
            # The corners of the bands are zero, so entries rolled around do not count.
            return middle * x + below * jnp.roll(x, 1, -1) + above * jnp.roll(x, -1, -1)

        return unless_irregular(lambda v: jax.tree.map(product, v), state, operator, y)


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

    def prepare(self, operator, y, hint=None, *, transposed=False):
        array = only_array(y, "Banded(...)", "n")
        widths = (self.upper, self.lower) if transposed else (self.lower, self.upper)
        bands = _read_bands(operator, y, array, *widths)
        if transposed:
            bands = _transpose_bands(bands, *widths)
        return cyclic_reduction(*_banded_to_blocks(bands, self.lower, self.upper))

    def solve(self, state, operator, b):
        return direct_solution(
            jax.tree.map(lambda a: self._blockwise(back_substitution, state, a), b)
        )

    def solve_transpose(self, state, transposed, b):
        by = back_substitution_transposed
        return direct_solution(jax.tree.map(lambda a: self._blockwise(by, state, a), b))

    def verify_structure(self, state, operator, y, *, transposed=False):
        return unless_singular(self, state, operator, y, transposed=transposed)

    def _blockwise(self, solve, state, b: Array) -> Array:
        size, n = max(self.lower, self.upper), b.shape[-1]
        padded = jnp.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, -n % size)])
        x = solve(state, padded.reshape(*b.shape[:-1], -1, size))
        return x.reshape(*b.shape[:-1], -1)[..., :n]


def _read_bands(operator, y, array: Array, lower: int, upper: int) -> Array:
    """A[i, i + k - lower] as (..., k, i), zero outside the matrix."""
    n, width = array.shape[-1], lower + upper + 1
    place = jnp.arange(n)

    def product(offset):
        seed = (place % width == offset).astype(array.dtype)
        seed = jnp.broadcast_to(seed, array.shape)
        seed = jax.tree.unflatten(jax.tree.structure(y), [seed])
        return jax.tree.leaves(operator(seed))[0]

    products = jax.vmap(product)(jnp.arange(width))
    rows = []
    for k in range(-lower, upper + 1):
        column = place + k
        row = jnp.moveaxis(products[column % width, ..., place], 0, -1)
        rows.append(jnp.where((column >= 0) & (column < n), row, 0))
    return jnp.stack(rows, axis=-2)


def _transpose_bands(bands: Array, lower: int, upper: int) -> Array:
    """Bands of Aᵀ, whose lower diagonals are the upper ones of A."""
    n = bands.shape[-1]
    rows = []
    for k in range(-upper, lower + 1):
        moved = jnp.roll(bands[..., lower - k, :], -k, axis=-1)
        column = jnp.arange(n) + k
        rows.append(jnp.where((column >= 0) & (column < n), moved, 0))
    return jnp.stack(rows, axis=-2)


def _solve_tridiagonal(bands: Array, b: Array) -> Array:
    below, middle, above = (bands[..., k, :] for k in range(3))
    if b.shape[-1] < 3:
        raise ValueError(
            f"Tridiagonal() needs 3 unknowns or more, got {b.shape[-1]}; use Dense()"
        )
    return jax.lax.linalg.tridiagonal_solve(below, middle, above, b[..., None])[..., 0]


def _banded_to_blocks(
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
