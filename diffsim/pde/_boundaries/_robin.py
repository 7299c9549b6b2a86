"""Dirichlet, Neumann and Robin boundary conditions."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._primitives import custom_derivative
from ..._jaxpr._tracing import closure_convert
from ..._linalg import machine_epsilon, matmul, max_norm
from ..._types import Numbers
from ..._validation import as_floating, is_traced, scalar, takes
from ._boundary import (
    AbstractGhostCellBoundary,
    GhostCells,
    boundary_polynomial,
    evaluate_prescribed,
    ghost_centers,
    prescribed_value,
)


#: Largest number of Newton steps to the u of a boundary.
_MAX_STEPS = 100


class Dirichlet(AbstractGhostCellBoundary):
    r"""Dirichlet boundary condition $u = g$.

    ```python
    surface = pde.Dirichlet(lambda t, x: jnp.sin(2 * np.pi * t))  # summer and winter
    ends, depth = (surface, pde.Neumann()), pde.Grid(50)
    ground = pde.Evolution(pde.Diffusion(0.01 * np.pi), jnp.zeros(50), depth, ends)
    ds.simulate(ground, 3.0).states  # exp(−10 x) sin(6π − 10 x), nearly
    ```

    **Arguments**

    - `value`: g: a number, an array with one number a channel or of shape (channel,
        *side) with length one across the boundary, or a function of (t, x), x of shape
        (axis, *side), any `eqx.Module` for instance. What floats in it is a parameter.
    """

    value: Any

    def __init__(self, value: Numbers | Any = 0.0):
        self.value = prescribed_value(value)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        unit = jnp.ones_like(spacing)
        nothing = jnp.zeros_like(spacing)
        places, cells = ghost_centers(width), max(order - 1, 1)
        return boundary_polynomial(unit, nothing, spacing, places, cells)

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


class AbstractSlopeBoundary(AbstractGhostCellBoundary):
    r"""$\alpha u + \beta\,\partial u/\partial n = g$, where g may depend on u."""

    value: eqx.AbstractVar[Any]
    takes_u: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def coefficients(self, dtype: Any) -> tuple[Array, Array]:
        """α and β."""

    @property
    def is_nonlinear(self) -> bool:
        return self.takes_u

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        return self._polynomial(spacing, ghost_centers(width), order)

    def at(self, t: Array, x: Array, *fields: Array) -> Array:
        return evaluate_prescribed(self.value, t, x, *fields)

    def solve_value(
        self, t: Array, x: Array, cells: list[Array], spacing: Array, order: int
    ) -> tuple[Array, Array]:
        """g(t, x, u) at the u of the boundary that it determines, and ∂g/∂u there.

        `cells` are those from the boundary inwards, each of shape (..., *side).
        """
        wall = self._polynomial(spacing, np.zeros(1), order)
        interior, weight = wall.interior_weights[0], wall.boundary_weight[0]
        pairs = zip(interior, cells, strict=False)
        free = sum((a * cell for a, cell in pairs), start=jnp.zeros_like(cells[0]))

        def law(u):
            return jnp.broadcast_to(self.at(t, x, u), u.shape)

        u = _solve_pointwise(lambda u: u - weight * law(u) - free, free, x.ndim)
        g, slope = jax.jvp(law, (u,), (jnp.ones_like(u),))
        # A positive slope enlarges g with u and cannot hold it. A negative one takes
        # the rounding of u out of g, which a stiff law would enlarge; g and its
        # derivatives are the same for any slope.
        slope = jax.lax.stop_gradient(jnp.where(weight * slope < 0, slope, 0))
        return (g - slope * (u - free)) / (1 - weight * slope), slope

    def _polynomial(self, spacing: Array, places: np.ndarray, order: int) -> GhostCells:
        alpha, beta = self.coefficients(spacing.dtype)
        # For order 2 a line will do: across the boundary it is wrong by the third
        # derivative alone, and diffusion stays symmetric.
        cells = order if order > 2 else 1
        return boundary_polynomial(alpha, beta, spacing, places, cells)


class Neumann(AbstractSlopeBoundary):
    r"""Neumann boundary condition $\partial u/\partial n = g$, n the outward normal.

    ```python
    ends = pde.Neumann(1.0), pde.Dirichlet(0.0)  # heat of one comes in at the left
    pde.poisson(jnp.zeros(50), pde.Domain(pde.Grid(50), ends))  # u = 1 − x

    glow = pde.Neumann(lambda t, x, u: 1 - u * jnp.abs(u) ** 3)  # radiates as u⁴
    sides = pde.Dirichlet(2.0), glow
    bar = pde.Evolution(pde.Diffusion(1.0), jnp.ones(50), pde.Grid(50), sides)
    pde.steady_state(bar)  # 2 − 0.8360 x, as −∂u/∂n = u⁴ − 1 at x = 1
    ```

    **Arguments**

    - `value`: g, as for `Dirichlet`; or a function of (t, x, u) with u at the boundary,
        shape (channel, *side). 0 lets nothing diffuse through. What a velocity carries
        still passes: take one that vanishes there, on faces.

    A g of u is fulfilled by the u between the last cell and its ghost, in every
    evaluation, by Newton's method from the cells beside it; steps that are implicit in
    diffusion are so in g. Explicit ones need not be shorter for a stiff one.

    **Limits:** of several u that fulfil a g the one that shorter cells lead to; NaN if
    there is none, as of u⁴ below 0 after too long a step (mathematics). Elliptic
    problems, `poisson` and `helmholtz`, and the `energy` of a `Wave` take no g of u;
    NaN for a g that reads u elsewhere, its mean along a side say (convenience).
    """

    value: Any
    takes_u: bool = eqx.field(static=True)

    def __init__(self, value: Numbers | Any = 0.0):
        self.value, self.takes_u = _slope_value(value)

    def coefficients(self, dtype: Any) -> tuple[Array, Array]:
        return jnp.zeros((), dtype), jnp.ones((), dtype)


class Robin(AbstractSlopeBoundary):
    r"""Robin boundary condition $\alpha u + \beta\,\partial u/\partial n = g$.

    ```python
    air = pde.Robin(alpha=1.0, beta=1.0)  # heat leaves in proportion to u
    rod = pde.Domain(pde.Grid(50), (pde.Dirichlet(1.0), air))
    pde.poisson(jnp.zeros(50), rod)  # u = 1 − x/2
    ```

    n is the outward normal.

    **Arguments**

    - `alpha`, `beta`: numbers, of one sign for a boundary that the field relaxes at.
    - `value`: g, as for `Neumann`; of u, α may hold its linear part as well.

    **Raises:** `ValueError` where both are 0, and where one is an array; in a `Domain`
    where they have opposite signs and α Δx is −2 β or beyond, as a field that grows at
    that boundary would decay on such cells. Traced ones give NaN or that field.

    **Limits:** as `Neumann`.
    """

    alpha: Array
    beta: Array
    value: Any
    takes_u: bool = eqx.field(static=True)
    is_gain: bool = eqx.field(static=True)

    def __init__(self, alpha: Numbers, beta: Numbers, value: Numbers | Any = 0.0):
        self.alpha = as_floating("alpha", scalar("alpha", alpha))
        self.beta = as_floating("beta", scalar("beta", beta))
        self.value, self.takes_u = _slope_value(value)
        traced = is_traced(self.alpha) or is_traced(self.beta)
        # Known where a solver is chosen, before anything is traced.
        self.is_gain = not traced and bool(self.alpha * self.beta < 0)
        if not (traced or np.asarray(self.alpha) or np.asarray(self.beta)):
            raise ValueError(
                "alpha and beta must not both be 0, which leaves u at the boundary "
                "undetermined; give pde.Dirichlet(value) or pde.Neumann(value)"
            )

    def coefficients(self, dtype: Any) -> tuple[Array, Array]:
        return self.alpha.astype(dtype), self.beta.astype(dtype)


def _slope_value(value: Any) -> tuple[Array | Callable, bool]:
    """Validate a value, and say whether it is a function of (t, x, u)."""
    takes_u = callable(value) and takes(value, ("t", "x", "u"))
    takes_u = takes_u and not takes(value, ("t", "x"))
    return prescribed_value(value, ("t", "x", "u")[: 2 + takes_u]), takes_u


def _solve_pointwise(residual: Callable, guess: Array, ndim: int) -> Array:
    """Newton's method for u along a side, where channels, the axis -`ndim`, may couple.

    NaN where it does not converge, and where places of the side are coupled.
    """
    shape = guess.shape if guess.ndim >= ndim else (1, *guess.shape)

    def with_channels_last(u):
        return jnp.moveaxis(u.reshape(shape), -ndim, -1)

    def as_field(y):
        return jnp.moveaxis(y, -1, -ndim).reshape(guess.shape)

    # The answer does not depend on where the search for it begins.
    start = with_channels_last(jax.lax.stop_gradient(guess))
    opened, consts = closure_convert(
        lambda y: with_channels_last(residual(as_field(y))), start
    )
    least = machine_epsilon(guess) ** 0.75

    def search(y, *consts):
        def step(carry):
            y, _, n = carry
            value, product = jax.linearize(lambda y: opened(consts, y), y)
            matrix = _blocks(product, value)
            slope = jnp.diagonal(matrix, axis1=-2, axis2=-1)[..., None]
            # On short cells it is 1: a root where it is negative is a spurious one.
            matrix = jnp.where(slope <= 0, jnp.eye(y.shape[-1], dtype=y.dtype), matrix)
            move = _solve_blocks(matrix, value)
            return y - move, max_norm(move), n + 1

        def is_moving(carry):
            y, size, n = carry
            return (size > least * max_norm(y)) & (n < _MAX_STEPS)

        first = y, jnp.full((), jnp.inf, y.dtype), 0
        y, size, _ = jax.lax.while_loop(is_moving, step, first)
        return [jnp.where(size <= least * max_norm(y), y, jnp.nan)]

    def tangent(outputs, inputs, tangents):
        (y,), consts = outputs, list(inputs[1:])
        moves = {i: move for i, move in enumerate(tangents[1:]) if move is not None}

        def by_consts(moved):
            return opened([moved.get(i, c) for i, c in enumerate(consts)], y)

        _, change = jax.jvp(by_consts, ({i: consts[i] for i in moves},), (moves,))
        _, product = jax.linearize(lambda y: opened(consts, y), y)
        return [-_solve_blocks(_blocks(product, y), change)]

    return as_field(custom_derivative(search, tangent, start, *consts)[0])


def _blocks(product: Callable, like: Array) -> Array:
    """Matrix of every place, shape (..., channel, channel); NaN if there is none."""
    eye = jnp.eye(like.shape[-1], dtype=like.dtype)
    columns = jax.vmap(lambda e: product(jnp.broadcast_to(e, like.shape)), out_axes=-1)
    matrix = columns(eye)
    signs = jnp.sign(jnp.cos(jnp.arange(1.0, like.size + 1, dtype=like.dtype) ** 2))
    actual = product(signs.reshape(like.shape))
    left = actual - matmul(matrix, signs.reshape(*like.shape, 1))[..., 0]
    is_local = max_norm(left) <= machine_epsilon(like) ** 0.5 * max_norm(actual)
    return jnp.where(is_local, matrix, jnp.nan)


def _solve_blocks(matrix: Array, b: Array) -> Array:
    b = b[..., None]
    return (b / matrix if matrix.shape[-1] == 1 else jnp.linalg.solve(matrix, b))[
        ..., 0
    ]
