"""Systems coupled along one axis: cyclic reduction, all of a level at once."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import matmul
from ._dense import factorize, solve_factorized
from ._linear_solver import (
    AbstractLinearSolver,
    direct_solution,
    only_array,
    unless_singular,
)


class BlockTridiagonal(AbstractLinearSolver):
    r"""Block tridiagonal matrix, for unknowns of shape (..., n, m):

    $$L_i x_{i-1} + D_i x_i + U_i x_{i+1} = b_i .$$

    ```python
    def reaction(c, rate):  # A + B → 2 B in 50 points between two baths
        gain = rate * jnp.prod(c, axis=-1, keepdims=True) * jnp.array([-1.0, 1.0])
        c = jnp.pad(c, ((1, 1), (0, 0)), constant_values=1.0)
        return jnp.diff(c, n=2, axis=0) + gain

    adjoint = implicit.ImplicitAdjoint(implicit.BlockTridiagonal())
    implicit.root(reaction, jnp.ones((50, 2)), 1e-3, adjoint=adjoint)
    ```

    Reaction and diffusion of m species on n points, for instance. The blocks are read
    off 3 m products with the operator. Every second block is eliminated at once, then
    every second of the rest: $O(n m^3)$ work in $\log_2 n$ batched steps, which suits
    vector units and GPUs; tangents and adjoints share the factors.

    **Limits:** pivots are sought inside the diagonal blocks only, as they are large
    in what parabolic and elliptic problems lead to (convenience).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/0707049",)

    def prepare(self, operator, y, hint=None, *, transposed=False):
        array = only_array(y, "BlockTridiagonal()", "n, m")
        blocks = _blocks(operator, y, array, transposed=transposed)
        return cyclic_reduction(*blocks)

    def solve(self, state, operator, b):
        return direct_solution(jax.tree.map(lambda a: back_substitution(state, a), b))

    def solve_transpose(self, state, transposed, b):
        return direct_solution(
            jax.tree.map(lambda a: back_substitution_transposed(state, a), b)
        )

    def verify_structure(self, state, operator, y, *, transposed=False):
        return unless_singular(self, state, operator, y, transposed=transposed)


class Level(NamedTuple):
    """One level of cyclic reduction: factors of the odd blocks and their couplings.

    `left` and `right` are D⁻¹ L and D⁻¹ U of the odd blocks, `lower` and `upper` the
    blocks of the even rows beside their diagonal.
    """

    odd: tuple[Array, ...]
    left: Array
    right: Array
    lower: Array
    upper: Array


Reduced = tuple[tuple[Level, ...], tuple[Array, ...]]


def cyclic_reduction(lower: Array, diagonal: Array, upper: Array) -> Reduced:
    """Factors of the matrix with these blocks (..., n, m, m).

    `lower[..., 0]` and `upper[..., -1]` have to be zero.
    """
    levels = []
    while diagonal.shape[-3] > 1:
        odd = factorize(diagonal[..., 1::2, :, :])
        left, right = (
            solve_factorized(odd, side[..., 1::2, :, :]) for side in (lower, upper)
        )
        diagonal, lower, upper = (a[..., ::2, :, :] for a in (diagonal, lower, upper))
        levels.append(Level(odd, left, right, lower, upper))
        count = diagonal.shape[-3]
        diagonal = diagonal - matmul(lower, _odd_before(right, count))
        diagonal = diagonal - matmul(upper, _odd_after(left, count))
        lower = -matmul(lower, _odd_before(left, count))
        upper = -matmul(upper, _odd_after(right, count))
    return tuple(levels), factorize(diagonal[..., 0, :, :])


def back_substitution(state: Reduced, b: Array) -> Array:
    """x with A x = b, for b and x of shape (..., n, m)."""
    levels, last = state
    halves, b = [], b[..., None]
    for level in levels:
        half = solve_factorized(level.odd, b[..., 1::2, :, :])
        b = b[..., ::2, :, :]
        count = b.shape[-3]
        b = b - matmul(level.lower, _odd_before(half, count))
        b = b - matmul(level.upper, _odd_after(half, count))
        halves.append(half)
    x = solve_factorized(last, b[..., 0, :, :])[..., None, :, :]
    for level, half in zip(reversed(levels), reversed(halves), strict=True):
        before, after = _even_neighbors(x, half.shape[-3])
        x = _interleave(
            x, half - matmul(level.left, before) - matmul(level.right, after)
        )
    return x[..., 0]


def back_substitution_transposed(state: Reduced, b: Array) -> Array:
    """x with Aᵀ x = b, by the same factors."""
    levels, last = state
    odds, b = [], b[..., None]
    for level in levels:
        odd = b[..., 1::2, :, :]
        b = b[..., ::2, :, :]
        count = b.shape[-3]
        b = b - _odd_before(matmul(_transpose_blocks(level.right), odd), count)
        b = b - _odd_after(matmul(_transpose_blocks(level.left), odd), count)
        odds.append(odd)
    x = solve_factorized(last, b[..., 0, :, :], transposed=True)[..., None, :, :]
    for level, odd in zip(reversed(levels), reversed(odds), strict=True):
        count = odd.shape[-3]
        before, _ = _even_neighbors(matmul(_transpose_blocks(level.upper), x), count)
        _, after = _even_neighbors(matmul(_transpose_blocks(level.lower), x), count)
        odd = solve_factorized(level.odd, odd - before - after, transposed=True)
        x = _interleave(x, odd)
    return x[..., 0]


def _odd_before(odd: Array, count: int) -> Array:
    """The odd block before each of `count` even ones, or 0."""
    return jnp.concatenate([jnp.zeros_like(odd[..., :1, :, :]), odd], -3)[
        ..., :count, :, :
    ]


def _odd_after(odd: Array, count: int) -> Array:
    """The odd block after each of `count` even ones, or 0."""
    return jnp.concatenate([odd, jnp.zeros_like(odd[..., :1, :, :])], -3)[
        ..., :count, :, :
    ]


def _even_neighbors(even: Array, count: int) -> tuple[Array, Array]:
    """The even blocks before and after each of `count` odd ones, or 0."""
    after = jnp.concatenate(
        [even[..., 1:, :, :], jnp.zeros_like(even[..., :1, :, :])], -3
    )
    return even[..., :count, :, :], after[..., :count, :, :]


def _interleave(even: Array, odd: Array) -> Array:
    count = even.shape[-3] + odd.shape[-3]
    whole = jnp.zeros((*even.shape[:-3], count, *even.shape[-2:]), even.dtype)
    return whole.at[..., ::2, :, :].set(even).at[..., 1::2, :, :].set(odd)


def _transpose_blocks(a: Array) -> Array:
    return jnp.swapaxes(a, -1, -2)


def _blocks(operator, y, array: Array, *, transposed: bool):
    """L, D and U from 3 m products: blocks three apart do not meet in any row."""
    *_, n, m = array.shape
    place = jnp.arange(n) % 3

    def products(offset):
        def product(e):
            seed = jnp.where(place[:, None] == offset, e, 0).astype(array.dtype)
            seed = jnp.broadcast_to(seed, array.shape)
            seed = jax.tree.unflatten(jax.tree.structure(y), [seed])
            (out,) = jax.tree.leaves(operator(seed))
            return out

        return jax.vmap(product, out_axes=-1)(jnp.eye(m, dtype=array.dtype))

    columns = jnp.stack([products(offset) for offset in range(3)])

    def beside(shift):
        """The blocks of rows i in columns i + shift; zero where there is none."""
        column = jnp.arange(n) + shift
        inside = ((column >= 0) & (column < n))[:, None, None]
        chosen = columns[column % 3, ..., jnp.arange(n), :, :]
        return jnp.where(inside, jnp.moveaxis(chosen, 0, -3), 0)

    lower, diagonal, upper = (beside(shift) for shift in (-1, 0, 1))
    if not transposed:
        return lower, diagonal, upper
    nothing = jnp.zeros_like(lower[..., :1, :, :])
    return (
        jnp.concatenate([nothing, _transpose_blocks(upper)[..., :-1, :, :]], -3),
        _transpose_blocks(diagonal),
        jnp.concatenate([_transpose_blocks(lower)[..., 1:, :, :], nothing], -3),
    )
