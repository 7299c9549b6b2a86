"""Differentiable solve of an elliptic problem."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...implicit import (
    AbstractLinearSolver,
    ImplicitAdjoint,
    ImplicitEquation,
    implicit_solve,
)
from ._fast_diagonalization import FastDiagonalization
from ._helmholtz_operator import (
    AbstractEllipticSolver,
    HelmholtzOperator,
    PreparedOperator,
)
from ._preconditioned_krylov import PreconditionedKrylov, krylov_solver
from ._tridiagonal_elimination import TridiagonalElimination


class EllipticLinearSolver(AbstractLinearSolver):
    """Linear solver made of an elliptic one and the system that it is for."""

    solver: AbstractEllipticSolver
    system: HelmholtzOperator

    def prepare(self, operator, y, hint=None, *, transposed=False):
        del operator, y, transposed
        return self.solver.prepare(self.system) if hint is None else hint

    def solve(self, state, operator, b):
        return self.solve_from_guess(state, operator, b, None)

    def solve_transpose(self, state, transposed, b):
        return self.solve_from_guess(state, transposed, b, None)

    def solve_from_guess(self, state, operator, b, guess):
        prepared, steps = PreparedOperator(self.system, state), []

        def solve(r):
            x, n = self.solver.solve(prepared, operator, r, guess=guess)
            steps.append(n)
            return x

        return self.system.around_constants(solve)(b), steps[0]


def solve_elliptic(
    system: HelmholtzOperator,
    b: Array,
    *,
    solver: AbstractEllipticSolver,
    guess: Array | None = None,
) -> tuple[Array, Array]:
    """The u with A u = P b, and the iterations it took, without a check of anything.

    Of one field, shape (*grid). Differentiable in all arrays of the system and in b,
    each derivative another solve with what was prepared for the value.
    """
    # The preparation and the preconditioner are constants: the derivative is that of
    # `ImplicitEquation`.
    linear_solver = EllipticLinearSolver(solver, jax.lax.stop_gradient(system))
    equation = ImplicitEquation(_residual, (system, b), guess is not None, _solve)
    start = jnp.zeros_like(b) if guess is None else guess
    u, iterations = implicit_solve(equation, start, ImplicitAdjoint(linear_solver))
    return u, iterations


class PreconditionedSolver(eqx.Module):
    """v ↦ M⁻¹ v of fields (channel, *grid), a system for every channel."""

    systems: list[HelmholtzOperator]
    states: list[Any]

    def __init__(self, systems: list[HelmholtzOperator]):
        self.systems = systems
        self.states = [FastDiagonalization().prepare(system) for system in systems]

    def __call__(self, v: Array) -> Array:
        parts = zip(self.systems, self.states, v, strict=True)
        by = FastDiagonalization()
        return jnp.stack(
            [by.apply_preconditioner(PreparedOperator(s, k), a) for s, k, a in parts]
        )


def default_solver(
    system: HelmholtzOperator, rtol: float | None = None
) -> AbstractEllipticSolver:
    """Return a direct solver where one fits, else one that iterates to a tolerance."""
    for solver in (TridiagonalElimination(), FastDiagonalization()):
        if not solver.unsupported_reason(system, exact=True):
            return solver
    return PreconditionedKrylov(krylov=krylov_solver(system, rtol))


def _residual(u: Array, parameters: tuple[HelmholtzOperator, Array]) -> Array:
    system, b = parameters
    return system(u) - system.project_mean_free(b)


def _solve(how, function, guess, parameters) -> tuple[Array, Array, Any]:
    del function
    guessed, adjoint = how
    system, b = parameters
    linear_solver = adjoint.linear_solver
    state = linear_solver.prepare(system, b)
    u, iterations = linear_solver.solve_from_guess(
        state, system, system.project_mean_free(b), guess if guessed else None
    )
    return u, iterations, state
