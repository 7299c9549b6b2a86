"""`steady_state`: steady states, and how they depend on every parameter."""

import functools
from collections.abc import Callable
from typing import Any, Literal, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool

from ..._jit._fresh_jit import fresh_jit
from ..._linalg import machine_epsilon
from ..._primitives import closure_convert
from ..._results import RESULTS, is_finite, nan_unless, value_or_solution
from ..._types import PyTree
from ..._validation import check_signature
from ...implicit import (
    AbstractInexactNewton,
    ImplicitAdjoint,
    ImplicitEquation,
    Krylov,
    Solution,
    implicit_solve,
    root,
)
from ...simulations import AbstractSimulation
from ._jacobian_preconditioner import LeftPreconditionedKrylov
from ._pseudo_transient import PseudoTransient
from ._steady_residual import check_simulation, residual_of


@overload
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: Literal[False] = False,
) -> PyTree[Array]: ...
@overload
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: Literal[True],
) -> Solution: ...
@overload
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: bool,
) -> PyTree[Array] | Solution: ...
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: bool = False,
) -> PyTree[Array] | Solution:
    r"""Steady state of a simulation: the u of $F(t_0, u) = 0$.

    Of an `Evolution` in finite volumes or an `IncompressibleFlow`. Differentiable in
    every number of it but the initial state, in every mode, by one linear solve and not
    through iterations. Bratu's problem, $\nabla^2 u + \lambda e^u = 0$, and how its
    hottest cell follows λ:

    ```python
    def hottest(strength):
        fire = pde.Diffusion(1.0, lambda t, x, u: strength * jnp.exp(u))
        grid = pde.Grid(64)
        rod = pde.Evolution(fire, jnp.zeros(64), grid, pde.Dirichlet(0.0))
        return jnp.max(pde.steady_state(rod))

    jax.jit(jax.value_and_grad(hottest))(1.0)
    ```

    **Arguments**

    - `simulation`: its initial state is the guess, which has no derivative; sources and
        boundaries that change with time are taken as they are at `t0`.
    - `solver`: None is `PseudoTransient()`, which finds states that attract; or
        `implicit.NewtonKrylov()` for the one that Newton's method comes to, stable or
        not, or whatever else `implicit.root` takes. Its `linear_solver` serves
        derivatives, too.
    - `observe`: `observe(t, y)` of the internal state, as for `simulate`:
        `flow.pressure`, `flow.force`; None is that of the simulation, the field of
        shape (channel, *grid) or the velocity in the centers of cells.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises; None does, and is NaN inside `fit` and `sweep`.
    - `full`: return an `implicit.Solution` with status, residual and iterations; the
        residual is that of u, about how far it still is from the answer.

    Linear solves are preconditioned: in finite volumes by `FastDiagonalization` for
    what the Jacobian makes of the shortest and the longest wave, in flows by a long
    step of friction and pressure alone (Mamun and Tuckerman 1995, doi
    10.1063/1.868730), which takes hardly more of them on finer grids.

    **RESULTS:** `no_steady_state`, as beyond a fold; `steady_state_not_determined`, as
    of diffusion with boundaries that are all `Neumann` or periodic, or at a fold, or
    where the solve of a derivative would not converge; `guess_not_finite`;
    `non_finite`; `invalid_parameter`.

    **Raises:** `ValueError` for simulations without a finite volume form;
    `RuntimeError` for failures where they raise.

    **Limits:** the state that the solver comes to, of several (mathematics).
    Preconditioned by diffusion: it takes the longer the more is carried, and without
    diffusion, as of waves, it may not converge (convenience).
    """
    check_simulation(simulation)
    solver = PseudoTransient() if solver is None else solver
    if not isinstance(solver, optx.AbstractRootFinder):
        raise ValueError(
            "solver must be pde.PseudoTransient(), implicit.NewtonKrylov() or another "
            f"root-finder, got {solver!r:.60}"
        )
    if observe is not None:
        check_signature("observe", observe, ("t", "y"))
    found = _solve(simulation, solver, observe, max_steps)
    return value_or_solution(found, throw=throw, full=full)


@fresh_jit
def _solve(simulation, solver, observe, max_steps) -> Solution:
    rate, preconditioner = residual_of(simulation)
    guess = simulation.initial_state()
    dynamic, static = eqx.partition(simulation, eqx.is_array)
    opened, consts = closure_convert(
        lambda y, dynamic: rate(y, eqx.combine(dynamic, static)), guess, dynamic
    )

    def function(y, theta):
        return opened(theta[1], y, theta[0])

    adjoint = ImplicitAdjoint(LeftPreconditionedKrylov(_krylov(solver), preconditioner))
    search = functools.partial(_search, max_steps)
    equation = ImplicitEquation(function, (dynamic, consts), solver, search)
    y, (status, size, steps) = implicit_solve(equation, guess, adjoint)
    proper = simulation.is_valid()
    status = RESULTS.where(proper, status, RESULTS.invalid_parameter)
    y = nan_unless(y, proper)
    observe = simulation.observe if observe is None else observe
    return Solution(observe(simulation.t0, y), status, size, steps)


def _search(max_steps: int, how, function, guess, theta):
    """The state or NaN, how it went, and nothing that derivatives could use."""
    solver, adjoint = how
    linear_solver = adjoint.linear_solver

    def distance(y, theta):
        # stop_gradient, so that Newton's Jacobian is L df and not d(L(y) f(y)), which
        # is the same where f is zero. Only the search for y is here: its derivative is
        # that of f, by the implicit function theorem, and loses nothing.
        inverse, _ = _preconditioned_jacobian(
            linear_solver, function, jax.lax.stop_gradient(y), theta
        )
        return inverse(function(y, theta))

    found = root(
        distance,
        guess,
        theta,
        solver=solver,
        # The one without an estimate of the condition number.
        adjoint=ImplicitAdjoint(mode="reverse"),
        max_steps=max_steps,
        throw=False,
        full=True,
    )
    status, y = _steady_status(found.status), found.value
    unique = _is_determined(linear_solver, function, y, theta)
    good = status == RESULTS.successful
    status = RESULTS.where(good & ~unique, RESULTS.steady_state_not_determined, status)
    y = jax.tree.map(lambda a: jnp.where(unique, a, jnp.nan), y)
    return y, (status, found.residual, found.iterations), None


def _preconditioned_jacobian(
    linear_solver: LeftPreconditionedKrylov, function, y, theta
):
    """M⁻¹ and the Jacobian of the rate, at y."""
    _, operator = jax.linearize(lambda y: function(y, theta), y)
    return linear_solver.preconditioner.at(operator, y), operator


def _steady_status(status: RESULTS) -> RESULTS:
    """Say of a failed search that it found no steady state."""
    names: Any = RESULTS
    for name in ("nonlinear_divergence", "nonlinear_max_steps_reached", "no_root"):
        lost = status == getattr(names, name)
        status = names.where(lost, names.no_steady_state, status)
    return status


def _is_determined(
    linear_solver: LeftPreconditionedKrylov, function, y, theta
) -> Bool[Array, ""]:
    """Whether the Jacobian at y can be solved for a generic right-hand side."""
    inverse, operator = _preconditioned_jacobian(linear_solver, function, y, theta)
    b = jax.tree.map(_generic_vector, y)
    size = jnp.sqrt(linear_solver.krylov.inner(b, b))
    tolerance = machine_epsilon(y) ** 0.5 * size
    x, _ = linear_solver.krylov.solve_to_tolerance(
        lambda v: inverse(operator(v)), b, tolerance
    )
    return is_finite(x)


def _generic_vector(a: Array) -> Array:
    """Right-hand sides that no null space is orthogonal to."""
    signs = jnp.sign(jnp.cos(jnp.arange(1.0, a.size + 1) ** 2))
    return (1 + signs.reshape(a.shape)).astype(a.dtype)


def _krylov(solver: Any) -> Krylov:
    """Krylov method of the solver, or the default."""
    own = isinstance(solver, AbstractInexactNewton)
    linear_solver = solver.linear_solver if own else PseudoTransient().linear_solver
    assert isinstance(linear_solver, Krylov)
    if linear_solver.preconditioner is not None:
        raise ValueError(
            "the Krylov method of solver has a preconditioner of its own: leave it "
            "out, steady_state preconditions by diffusion"
        )
    return linear_solver
