"""Diffusion as the stiff part of an equation: its rate, and the solve of its steps."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ... import implicit
from .._domain import Domain
from .._elliptic import (
    PreconditionedSolver,
    default_solver,
    helmholtz_operator,
    solve_elliptic,
)
from .._finite_volume import diffusion, laplacian
from ._coefficients import evaluate_coefficient


def diffusion_term(
    diffusivities: tuple[Any, ...], t: Any, u: Array, domain: Domain
) -> Array:
    r"""$\nabla\cdot(D_c\,\nabla u_c)$ for every channel c."""
    return diffusion(u, _stacked_diffusivities(diffusivities, t, u, domain), domain, t)


def diffusion_term_of_order(
    D: Array, order: int, t: Any, u: Array, domain: Domain
) -> Array:
    r"""$\nabla\cdot(D\,\nabla u)$ of one channel, beside a scheme of so high an order.

    Of order 4 where that is above 2 and D a number, else 2.
    """
    if D.ndim == 0 and order > 2:
        return D * laplacian(u, domain, t, order=4)
    return diffusion(u, D, domain, t)


def solve_implicit_diffusion(
    diffusivities: tuple[Any, ...],
    step: tuple[Any, Array],
    rhs: Array,
    guess: Array,
    domain: Domain,
) -> Array:
    r"""The u with $u_c - \mathrm{length}\,\nabla\cdot(D_c\,\nabla u_c)$ = rhs.

    `step` is t and length. NaN where a solve did not converge.
    """
    t, length = step
    length = length.astype(rhs.dtype)
    if any(callable(d) for d in diffusivities):
        return _nonlinear(diffusivities, (t, length), rhs, guess, domain)
    nothing = jnp.zeros_like(rhs)
    b = rhs + length * diffusion_term(diffusivities, t, nothing, domain)
    found = []
    for given, right, near in zip(diffusivities, b, guess, strict=True):
        k = length * jnp.asarray(given, rhs.dtype)
        system = helmholtz_operator(domain, k, 1.0, rhs.dtype, regular=True)
        solver = default_solver(system, _stage_tolerance(rhs, 1))
        found.append(solve_elliptic(system, right, solver=solver, guess=near)[0])
    return jnp.stack(found)


def diffusive_courant_rate(diffusivity: Array, domain: Domain, dtype: Any) -> Array:
    """Courant rate of diffusion: Σ 2 D/Δx² over axes, at the largest D."""
    spacing = domain.grid.spacing.astype(dtype)
    return 2 * jnp.max(diffusivity).astype(dtype) * jnp.sum(spacing**-2)


def _nonlinear(diffusivities, step, rhs, guess, domain):
    """By Newton's method, whose steps are led by D of the guess."""

    def residual(u, given):
        (t, length), rhs, domain = given
        return u - length * diffusion_term(diffusivities, t, u, domain) - rhs

    t, length = step
    left = _stage_tolerance(rhs, 5)
    line = domain.grid.ndim == 1 and not domain.periodic(0) and len(rhs) == 1
    if line:
        linear_solver = implicit.Tridiagonal()
    else:
        fields = evaluate_diffusivities(diffusivities, t, guess, domain)
        systems = [
            helmholtz_operator(domain, length * k, 1.0, rhs.dtype, regular=True)
            for k in fields
        ]
        linear_solver = implicit.Krylov(
            implicit.GMRES(), preconditioner=PreconditionedSolver(systems)
        )
    adjoint = implicit.ImplicitAdjoint(linear_solver)
    given = ((t, length), rhs, domain)
    solver = None
    if not line:
        solver = implicit.NewtonKrylov(left, left, linear_solver=linear_solver)
    return implicit.root(
        residual, guess, given, solver=solver, adjoint=adjoint, throw=False
    )


def _stage_tolerance(rhs: Array, roundings: int) -> float:
    """Tolerance of a stage; steps add the errors up. In float32 so many roundings."""
    return max(roundings * float(jnp.finfo(rhs.dtype).eps), 2e-12)


def _stacked_diffusivities(diffusivities, t, u, domain) -> Array:
    """All of them as one coefficient of `diffusion`."""
    found = evaluate_diffusivities(diffusivities, t, u, domain)
    if len(found) == 1:
        return found[0]
    if all(k.ndim == 0 for k in found):
        return jnp.stack(found).reshape(-1, *[1] * domain.grid.ndim)
    return jnp.stack([jnp.broadcast_to(k, domain.grid.shape) for k in found])


def evaluate_diffusivities(
    diffusivities: tuple[Any, ...], t: Any, u: Array, domain: Domain
) -> list[Array]:
    """D of every channel, numbers and fields."""
    x = domain.grid.centers.astype(u.dtype)
    found = [
        evaluate_coefficient("the diffusivity of a channel", d, t, x, a)
        for d, a in zip(diffusivities, u, strict=True)
    ]
    for k in found:
        if k.ndim > domain.grid.ndim:
            raise ValueError(
                "the diffusivity of a channel must be a number or a field of the shape "
                f"of the grid, {domain.grid.shape}, got shape {k.shape}"
            )
    return found
