"""Preconditioners of Jacobians of rates: diffusion, and a step of Stokes flow."""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._types import PyTree
from ...implicit import AbstractLinearSolver, Krylov
from .._boundaries import Inflow
from .._domain import Domain
from .._elliptic import PreconditionedSolver, helmholtz_operator
from .._grid import multiply_along_axis, on_axis
from .._incompressible import (
    Faces,
    NoSlip,
    Side,
    StaggeredGrid,
    is_open,
    project_out_gradient,
)


class AbstractJacobianPreconditioner(eqx.Module):
    """Preconditioner M⁻¹ of a Jacobian: of a rate it makes about the distance to go."""

    @abc.abstractmethod
    def at(self, operator: Callable, y: PyTree[Array]) -> Callable:
        """v ↦ M⁻¹ v, a linear pytree, where the Jacobian of the rate is `operator`."""


class LeftPreconditionedKrylov(AbstractLinearSolver):
    r"""A Krylov method for $M^{-1} A x = M^{-1} b$ and $M^{-T} A^T x = M^{-T} b$.

    From the left, both: what rounding leaves of b − A x is rough and may be larger than
    the tolerance, which M⁻¹ knows to be little.
    """

    krylov: Krylov
    preconditioner: AbstractJacobianPreconditioner

    def prepare(self, operator, y, hint=None, *, transposed=False):
        del hint, transposed
        return self.preconditioner.at(operator, y)

    def solve(self, state, operator, b):
        return self._solve_from_left(state, operator, b)

    def solve_transpose(self, state, transposed, b):
        turned = jax.linear_transpose(state, b)
        return self._solve_from_left(lambda v: turned(v)[0], transposed, b)

    def _solve_from_left(self, inverse: Callable, operator: Callable, b: Any):
        b = inverse(b)
        tolerance = self.krylov.tolerance(b)
        return self.krylov.solve_to_tolerance(
            lambda v: inverse(operator(v)), b, tolerance
        )


#: Least diffusivity of a cell relative to the mean.
_LEAST = 1e-3


class DiffusionPreconditioner(AbstractJacobianPreconditioner):
    r"""Preconditioner $M = \alpha - \nabla\cdot(k\,\nabla)$ of every channel.

    Of waves that change sign from cell to cell the Jacobian makes
    $-4 k \sum_a \Delta x_a^{-2}$ of their height, of constants $-\alpha$. Fluxes that
    are upwind are among k, and equations need say nothing of it.
    """

    domain: Domain
    t0: Any

    def at(
        self, operator: Callable, y: Float[Array, "channel *grid"]
    ) -> PreconditionedSolver:
        grid, dtype = self.domain.grid, y.dtype
        channels = len(y)
        wave = 1.0 - 2 * (np.indices(grid.shape).sum(0) % 2)
        steepest = jnp.asarray(wave, dtype)
        probes = jnp.stack([steepest, jnp.ones_like(steepest)])
        each = jnp.eye(channels, dtype=dtype).reshape(
            channels, 1, channels, *[1] * grid.ndim
        )
        answers = jax.vmap(jax.vmap(operator))(each * probes[None, :, None])
        responses = jnp.stack([answers[c, :, c] for c in range(channels)])
        domains = self.domain.linearized(y, self.t0)
        return PreconditionedSolver(
            [
                self._helmholtz_operator(a * probes, domain)
                for a, domain in zip(responses, domains, strict=True)
            ]
        )

    def _helmholtz_operator(self, answers: Array, domain: Domain):
        """Operator of one channel, by the Jacobian of a wave and of a constant."""
        grid = self.domain.grid
        spacing = grid.spacing.astype(answers.dtype)
        steep, level = self._without_boundary_cells(answers)
        k = (level - steep) / (4 * jnp.sum(spacing**-2))
        typical = jnp.mean(jnp.abs(k))
        k = jnp.maximum(k, _LEAST * typical)
        # Waves longer than the grid; and where nothing spreads or reacts, one for all.
        longest = jnp.max(grid.upper - grid.lower).astype(answers.dtype)
        least = typical / longest**2
        alpha = jnp.abs(level) + least
        empty = jnp.max(alpha) == 0
        k, alpha = jnp.where(empty, 1, k), jnp.where(empty, 1, alpha)
        return helmholtz_operator(domain, k, alpha, answers.dtype, regular=True)

    def _without_boundary_cells(self, answers: Array) -> Array:
        """Replace cells beside boundaries by those before them."""
        for axis, n in enumerate(self.domain.grid.shape):
            if n > 2 and not self.domain.periodic(axis):
                inner = jax.lax.slice_in_dim(answers, 1, n - 1, axis=axis + 1)
                pads = [(0, 0)] * answers.ndim
                pads[axis + 1] = (1, 1)
                answers = jnp.pad(inner, pads, mode="edge")
        return answers


class StokesPreconditioner(AbstractJacobianPreconditioner):
    r"""Stokes step $P\,(1/\Delta t - \nu\nabla^2)^{-1} P$, walls at rest.

    P is the pressure projection.

    The step of a flow without inertia, by which Tuckerman preconditions Newton's
    method, but with friction and pressure each solved for by itself, once, by
    transforms: in the cavity on 32² cells GMRES takes 28 products with it and 23 with
    the exact step. Δt is the time of friction over the grid. What diverges is left as
    it is.
    """

    space: StaggeredGrid
    viscosity: Array

    @classmethod
    def of(cls, space: StaggeredGrid, viscosity: Array) -> "StokesPreconditioner":
        """Preconditioner of a flow, whatever its walls do."""
        walls = tuple(
            (_side_at_rest(low), _side_at_rest(high)) for low, high in space.walls
        )
        return cls(StaggeredGrid(space.grid, walls), viscosity)

    def at(self, operator, y):
        del operator, y
        return self

    def __call__(self, v: Faces) -> Faces:
        inside = project_out_gradient(self.space, v, None)[0]
        rubbed = tuple(self._apply_inverse_friction(i, a) for i, a in enumerate(inside))
        moved = project_out_gradient(self.space, rubbed, None)[0]
        return tuple(a - b + c for a, b, c in zip(v, inside, moved, strict=True))

    def _apply_inverse_friction(self, i: int, a: Array) -> Array:
        """Solve for implicit friction of one component over so long a time."""
        grid = self.space.grid
        # Friction is symmetric with these weights.
        axes = range(grid.ndim)
        weights = (on_axis(self._weights(i, axis), axis, grid.ndim) for axis in axes)
        root = jnp.sqrt(math.prod(weights)).astype(a.dtype)
        longest = jnp.max(grid.upper - grid.lower)
        total, matrices = longest**-2, []
        for axis, dx in enumerate(grid.spacing):
            matrix, values = self._eigenvectors(i, axis)
            values = on_axis(jnp.asarray(values, a.dtype), axis, grid.ndim)
            total = total + values / dx**2
            matrices.append(jnp.asarray(matrix, a.dtype))
        x = root * a
        for axis, matrix in enumerate(matrices):
            x = multiply_along_axis(axis, matrix, x)
        x = x / (self.viscosity * total)
        for axis, matrix in enumerate(matrices):
            x = multiply_along_axis(axis, matrix.T, x)
        return x / root

    def _eigenvectors(self, i: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
        n, (low, high) = self.space.grid.shape[axis], self.space.walls[axis]
        if self.space.periodic(axis):
            return _periodic_eigenvectors(n)
        if i == axis:
            return _face_eigenvectors(n, is_open(low), is_open(high))
        return _center_eigenvectors(n, low, high)

    def _weights(self, i: int, axis: int) -> Array:
        sides, start, stop = self.space.walls[axis], 0, self.space.grid.shape[axis]
        ends = [_tangential_weight(side) for side in sides]
        if axis == i:
            start, stop = self.space.span(i)
            # A face of an open side has half a cell.
            ends = [0.5 if is_open(side) else 1.0 for side in sides]
        return jnp.ones(stop - start).at[0].set(ends[0]).at[-1].set(ends[1])


def _tangential_weight(side: Any) -> float:
    """The weight of a value beside a side that it is along.

    The parabola at a wall makes 4/3 of what a line through one value makes.
    """
    return 3 / 4 if isinstance(side, NoSlip) else 1.0


def _side_at_rest(side: Side) -> Side:
    return type(side)(0.0) if isinstance(side, NoSlip | Inflow) else side


def _periodic_eigenvectors(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and then sines of a periodic axis."""
    up, down = np.arange(n // 2 + 1), np.arange(1, (n + 1) // 2)
    places = 2 * np.pi / n * np.arange(n)
    vectors = np.concatenate(
        [np.cos(up[:, None] * places), np.sin(down[:, None] * places)]
    )
    return _normalize(vectors, np.pi / n * np.concatenate([up, down]))


def _face_eigenvectors(n: int, low: bool, high: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors on faces between ends that are open, where slopes vanish, or closed.

    Those at open ends stand for half a cell.
    """
    faces = np.arange(int(not low), n + int(high))
    count = np.arange(int(not low and not high), n + int(low and high))
    half = np.pi / (2 * n) * (count + (0.5 if low != high else 0.0))
    vectors = (np.cos if low else np.sin)(2 * half[:, None] * faces)
    vectors[:, (faces == 0) | (faces == n)] *= np.sqrt(0.5)
    return _normalize(vectors, half)


def _center_eigenvectors(n: int, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors in centers between sides that hold the flow or let it slip."""
    line = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    line[[0, -1], [0, -1]] = [
        3.0 if isinstance(side, NoSlip | Inflow) else 1.0 for side in (low, high)
    ]
    roots = np.ones(n)
    roots[[0, -1]] = np.sqrt([_tangential_weight(low), _tangential_weight(high)])
    values, columns = np.linalg.eigh(line / roots / roots[:, None])
    return columns.T, values


def _normalize(waves: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Waves of length one, and eigenvalues of half the angle from place to place."""
    return waves / np.linalg.norm(waves, axis=1, keepdims=True), 4 * np.sin(half) ** 2
