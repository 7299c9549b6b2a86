"""`HelmholtzOperator`: α u − ∇·(k ∇u) on a grid, and the interface of its solvers."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import max_norm
from ..._types import PyTree
from .._boundaries import (
    AbstractGhostCellBoundary,
    Dirichlet,
    GhostCells,
    Neumann,
    Outflow,
    Robin,
    map_sides,
)
from .._domain import Domain
from .._finite_volume import values_on_faces
from .._grid import on_axis
from .._stencils import divergence, face_neighbors


#: Boundaries are `even` where the ghost is the cell, `odd` where it is its negative.
Kinds = tuple[tuple[str, str] | None, ...]


class HelmholtzOperator(eqx.Module):
    r"""Helmholtz operator $A v = \alpha v - \nabla\cdot(k\,\nabla v)$.

    With zero prescribed at the boundary.

    The operator of `pde.diffusion`, as a linear map of one field. Where all constants
    have A v = 0, it is $P A + \sigma E$ instead, with the mean E, $P = 1 - E$ and any
    σ > 0: it can be solved then, and its solution for P b is that of A of mean zero.

    - `alpha`: α, a number or a field.
    - `faces`: k/Δx² on the faces across each axis, numbers or fields.
    - `walls`: A of both ghost cells of an axis, shape (1, cell); None if periodic.
    - `sigma`: σ, or zero for a regular A; None where it is known to be regular.
    """

    alpha: Array
    faces: tuple[Array, ...]
    walls: tuple[tuple[Array, Array] | None, ...]
    sigma: Array | None
    shape: tuple[int, ...] = eqx.field(static=True)
    kinds: Kinds = eqx.field(static=True)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def uniform(self) -> bool:
        """Whether all coefficients are numbers."""
        return not any(a.ndim for a in (self.alpha, *self.faces))

    @property
    def symmetric(self) -> bool:
        """Whether every ghost follows from the one cell beside it."""
        pairs = (pair for pair in self.walls if pair is not None)
        return all(own.shape[1] == 1 for pair in pairs for own in pair)

    def __call__(self, v: Array) -> Array:
        Av = self.plain(v)
        if self.sigma is None:
            return Av
        return self.project_mean_free(Av) + self.sigma * jnp.mean(v)

    def plain(self, v: Array) -> Array:
        """A v, whatever A makes of constants."""
        zero, zeros = jnp.zeros((), v.dtype), jnp.zeros(1, v.dtype)

        def ghosts(axis, end, weights):
            return GhostCells(weights.astype(v.dtype), zeros)

        ends = map_sides(ghosts, self.walls)
        values = map_sides(lambda axis, end, weights: zero, self.walls)
        views = face_neighbors(v, ends, values, 1)
        pairs = zip(self.faces, views, strict=True)
        return self.alpha * v - divergence(
            [c * (high - low) for c, (low, high) in pairs]
        )

    def project_mean_free(self, v: Array) -> Array:
        """P v, or v where A is regular."""
        if self.sigma is None:
            return v
        return v - jnp.where(self.sigma > 0, jnp.mean(v), 0)

    def around_constants(self, solve: Callable[[Array], Array]) -> Callable:
        """Extend a solver for fields without a mean to all fields."""
        if self.sigma is None:
            return solve
        singular = self.sigma > 0
        inverse = jnp.where(singular, 1 / jnp.where(singular, self.sigma, 1), 0)

        def solved(b):
            x = solve(self.project_mean_free(b))
            return self.project_mean_free(x) + inverse * jnp.mean(b)

        return solved


def helmholtz_operator(
    domain: Domain, coefficient: Any, alpha: Any, dtype: Any, *, regular: bool = False
) -> HelmholtzOperator:
    """The system of a problem; `regular` where A is known to have no null space."""
    spacing = domain.grid.spacing.astype(dtype)
    faces = values_on_faces(coefficient, domain, dtype)
    pairs = domain.boundary_pairs
    walls = map_sides(
        lambda axis, end, side: side.ghosts(spacing[axis], 1, 2).interior_weights,
        pairs,
    )
    kinds = map_sides(lambda axis, end, side: _kind(side), pairs)
    system = HelmholtzOperator(
        jnp.asarray(alpha, dtype),
        tuple(c / dx**2 for c, dx in zip(faces, spacing, strict=True)),
        tuple(walls),
        None,
        domain.grid.shape,
        tuple(kinds),
    )
    held = any("odd" in pair for pair in kinds if pair is not None)
    if regular or held:
        return system
    return eqx.tree_at(
        lambda s: s.sigma, system, _sigma(system), is_leaf=lambda x: x is None
    )


def operator_diagonal(system: HelmholtzOperator) -> Array:
    diagonal = jnp.broadcast_to(system.alpha, system.shape)
    for axis, (c, pair) in enumerate(zip(system.faces, system.walls, strict=True)):
        c = coefficient_on_faces(c, axis, system.shape)
        n = system.shape[axis]
        low = jax.lax.slice_in_dim(c, 0, n, axis=axis)
        high = jax.lax.slice_in_dim(c, 1, n + 1, axis=axis)
        if pair is not None:
            inside = on_axis(jnp.arange(n), axis, c.ndim)
            low = jnp.where(inside == 0, (1 - pair[0][0, 0]) * low, low)
            high = jnp.where(inside == n - 1, (1 - pair[1][0, 0]) * high, high)
        diagonal = diagonal + low + high
    return diagonal


def coefficient_on_faces(c: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """A coefficient as a field of the faces across `axis`."""
    faces = tuple(n + (i == axis) for i, n in enumerate(shape))
    return jnp.broadcast_to(c, faces)


def _sigma(system: HelmholtzOperator) -> Array:
    """Size of A if it has constants in its null space, else zero.

    They have no differences across faces, so that A makes exactly zero of them.
    """
    # Any size would do: it multiplies a constant, which is not part of the answer.
    frozen = jax.lax.stop_gradient(system)
    of_constants = frozen.plain(jnp.ones(frozen.shape, frozen.alpha.dtype))
    size = 2 * sum((jnp.mean(c) for c in frozen.faces), start=jnp.mean(frozen.alpha))
    return jnp.where(jnp.any(of_constants != 0), 0, size)


def _kind(side: AbstractGhostCellBoundary) -> str:
    if isinstance(side, Dirichlet):
        return "odd"
    if isinstance(side, Robin) and side.is_gain:
        return "gain"
    return "even" if isinstance(side, Neumann | Outflow) else "other"


def typical_size(b: Array) -> Array:
    """Unit of b for iterations: squares of small numbers are zero in float32."""
    size = max_norm(b)
    return jnp.where(size > 0, size, 1)


def with_refinement(
    solve: Callable[[Array], Array],
    operator: Callable[[Array], Array],
    b: Array,
    guess: Array | None,
) -> Array:
    """A direct solve, of the change alone where it is known what is nearly right.

    What rounding leaves is as small as the change then: in float32 300 short steps of
    Crank–Nicolson are 46 times more exact.
    """
    return solve(b) if guess is None else guess + solve(b - operator(guess))


class PreparedOperator(NamedTuple):
    """A system, and what a solver prepared for it."""

    system: HelmholtzOperator
    state: Any


class AbstractEllipticSolver(eqx.Module):
    r"""Solver of $A u = b$ for the operator of an elliptic problem on a grid.

    Values, tangents and adjoints come here, one field at a time. Of a singular A, `b`
    has no mean, and that of the answer does not matter. What does not converge is NaN.
    """

    @abc.abstractmethod
    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        """Say why this cannot solve a system, and what can; or nothing.

        If not `exact`, why it cannot precondition another solver.
        """

    @abc.abstractmethod
    def prepare(self, system: HelmholtzOperator) -> PyTree:
        """Prepare what all solves with a system share: coarse grids, eigenvalues."""

    @abc.abstractmethod
    def solve(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        """Solve A u = b; return u and the iterations it took.

        `operator` is v ↦ A v, or v ↦ Aᵀ v; they differ where ghosts follow from more
        than the one cell beside them.
        """


class AbstractPreconditioner(AbstractEllipticSolver):
    """A solver that is one linear map, which can precondition a Krylov method."""

    @abc.abstractmethod
    def apply_preconditioner(self, prepared: PreparedOperator, b: Array) -> Array:
        """Apply M⁻¹ to b, of a symmetric positive definite M that is near to A."""
