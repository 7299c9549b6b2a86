"""`FastDiagonalization`: direct solves in the eigenvectors of each axis."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..._types import PyTree
from .._stencils import average
from ._helmholtz_operator import (
    AbstractPreconditioner,
    HelmholtzOperator,
    PreparedOperator,
    coefficient_on_faces,
    with_refinement,
)
from ._tensor_eigenbasis import apply_in_eigenbasis, eigenvectors


class FastDiagonalization(AbstractPreconditioner):
    r"""Fast diagonalization: direct, by eigenvectors Q of each axis; constant k and α.

    $$u = Q\,\Lambda^{-1} Q^T b, \qquad
      \Lambda = \alpha + \sum_a \frac{k}{\Delta x_a^2} \lambda_a$$

    ```python
    square = pde.Domain(pde.Grid((64, 64)), pde.Dirichlet(0.0))
    x, y = square.grid.centers
    u = jnp.sin(np.pi * x) * jnp.sin(np.pi * y)
    pde.poisson(2 * np.pi**2 * u, square, solver=pde.FastDiagonalization())  # u
    ```

    Fourier transforms along periodic axes; between boundaries of any kind products with
    a matrix of n × n discrete waves, which on a CPU take half the time of cosine
    transforms for n = 256, the same for 512 and twice as long for 1024.

    Inside `PreconditionedKrylov` it takes k and α that vary, by
    $\sqrt k\,(\beta - \nabla^2)\sqrt k$, which is close to A where k varies smoothly,
    by whatever factor; cells may be of any proportions.

    **Limits:** ghosts that follow from the one cell beside them; `Robin` with
    coefficients of one sign: others are refused, traced ones give NaN (convenience).
    """

    references: ClassVar[tuple[str, ...]] = ("10.1137/0707049", "10.1137/0710092")

    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        if exact and not system.uniform:
            return (
                "FastDiagonalization() solves for a coefficient and an alpha that are "
                "numbers, got fields; take PreconditionedKrylov(FastDiagonalization())"
            )
        if exact and not system.symmetric:
            return (
                "FastDiagonalization() needs ghosts that follow from the one cell "
                "beside them; take PreconditionedKrylov(FastDiagonalization())"
            )
        if exact and any("gain" in kinds for kinds in system.kinds if kinds):
            return (
                "FastDiagonalization() solves between Robin boundaries that hold the "
                "field, got alpha and beta of opposite signs; take "
                "PreconditionedKrylov(FastDiagonalization())"
            )
        return ""

    def prepare(self, system: HelmholtzOperator) -> PyTree:
        if system.uniform:
            return None
        return _smooth_scaling(system)

    def solve(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        x = with_refinement(
            lambda r: self.apply_preconditioner(prepared, r), operator, b, guess
        )
        # Eigenvectors of other boundaries precondition, but do not solve.
        return jnp.where(_has_eigenbasis(prepared.system), x, jnp.nan), jnp.asarray(1)

    def apply_preconditioner(self, prepared: PreparedOperator, b: Array) -> Array:
        if prepared.state is None:
            return _solve_uniform(prepared.system, b)
        scale, smooth = prepared.state
        return _solve_uniform(smooth, b / scale) / scale


def _solve_uniform(system: HelmholtzOperator, b: Array) -> Array:
    """A⁻¹ b, where all coefficients are numbers."""
    matrices, eigenvalues = eigenvectors(
        system.kinds, system.walls, system.shape, system.faces
    )
    eigenvalues = system.alpha + eigenvalues

    def divide(x):
        if system.sigma is None:
            return x / eigenvalues
        first = jnp.zeros(eigenvalues.shape, bool).at[(0,) * eigenvalues.ndim].set(True)
        is_null = first & (system.sigma > 0)
        return jnp.where(is_null, 0, x / jnp.where(is_null, 1, eigenvalues))

    return apply_in_eigenbasis(matrices, b, divide)


def _has_eigenbasis(system: HelmholtzOperator) -> Bool[Array, ""]:
    """Whether no ghost exceeds the cell that it follows from, but by rounding."""
    holds, largest = jnp.ones((), bool), 1 + 8 * jnp.finfo(system.alpha.dtype).eps
    for kinds, pair in zip(system.kinds, system.walls, strict=True):
        if kinds is not None and not {"other", "gain"}.isdisjoint(kinds):
            for weights in pair or ():
                holds = holds & (jnp.abs(weights.sum()) <= largest)
    return holds


def _smooth_scaling(system: HelmholtzOperator) -> tuple[Array, HelmholtzOperator]:
    r"""s and a B of numbers with A ≈ s B s.

    For $s = \sqrt k$ the two differ by the potential $\nabla^2 s/s + \alpha/k$ alone,
    and B has the mean of it.
    """
    dtype = system.alpha.dtype
    sizes = tuple(jnp.mean(c) for c in system.faces)
    # A step of no length has no k at all.
    relative = [
        average(
            coefficient_on_faces(
                jnp.where(size > 0, c / jnp.where(size > 0, size, 1), 1),
                axis,
                system.shape,
            ),
            axis - system.ndim,
        )
        for axis, (c, size) in enumerate(zip(system.faces, sizes, strict=True))
    ]
    scale = jnp.sqrt(sum(relative[1:], start=relative[0]) / system.ndim)
    bare = HelmholtzOperator(
        jnp.zeros((), dtype), sizes, system.walls, None, system.shape, system.kinds
    )
    ones = jnp.ones(system.shape, dtype)
    potential = jnp.mean(system.plain(ones / scale) / scale - bare.plain(ones))
    # A well would make B indefinite, and none at all might leave it singular.
    least = jnp.finfo(dtype).eps ** 0.5 * sum(sizes[1:], start=sizes[0])
    beta = jnp.maximum(potential, least)
    return scale, eqx.tree_at(lambda s: s.alpha, bare, beta)
