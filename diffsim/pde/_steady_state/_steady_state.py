"""`steady_state`: steady states, and how they depend on every parameter."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool

from ..._jaxpr._tracing import closure_convert
from ..._jit._fresh_jit import fresh_jit
from ..._linalg import machine_epsilon, max_norm
from ..._results import RESULTS, is_finite, nan_unless, raise_if_failed, should_raise
from ..._types import PyTree
from ..._validation import function_of, instance, or_default, positive
from ...implicit import (
    AbstractInexactNewton,
    ImplicitAdjoint,
    ImplicitEquation,
    Krylov,
    Solution,
    implicit_solve,
    root_solution,
)
from ...simulations import AbstractSimulation
from .._discretizations import FiniteVolume
from .._equations import AbstractFiniteVolumeEquation
from .._evolution import Evolution
from .._incompressible import (
    Faces,
    IncompressibleFlow,
    leray_project,
    project_out_gradient,
)
from ._growth import fastest_growth
from ._preconditioners import (
    AbstractJacobianPreconditioner,
    DiffusionPreconditioner,
    LeftPreconditionedKrylov,
    StokesPreconditioner,
)
from ._pseudo_transient import PseudoTransient


#: How often `PseudoTransient` sets out, the first time from the guess.
_TRIES = 3


def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    attracting: bool = True,
    max_steps: int = 256,
    throw: bool | None = None,
) -> PyTree[Array]:
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
    - `solver`: None is `PseudoTransient()`, which goes where time would; or
        `implicit.NewtonKrylov()` for the state that Newton's method comes to, or
        whatever else `implicit.root` takes. Its `linear_solver` serves derivatives,
        too.
    - `observe`: `observe(t, y)` of the internal state, as for `simulate`:
        `flow.pressure`, `flow.force`; None is that of the simulation, the field of
        shape (channel, *grid) or the velocity in the centers of cells.
    - `attracting`: whether a state from which a wave grows is a failure. The wave that
        grows fastest is sought among 24 that the preconditioned Jacobian makes;
        `PseudoTransient` goes on along it, up to twice. False takes any state.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises; None does, and is NaN inside `fit` and `sweep`.

    `steady_state_solution` returns the status, the residual and the iterations as well.

    Linear solves are preconditioned: in finite volumes by `FastDiagonalization` for
    what the Jacobian makes of the shortest and the longest wave, in flows by a long
    step of friction and pressure alone (Mamun and Tuckerman 1995, doi
    10.1063/1.868730), which takes hardly more of them on finer grids.

    **RESULTS:** `no_steady_state`, as beyond a fold; `unstable_state`;
    `steady_state_not_determined`, as of diffusion with boundaries that are all
    `Neumann` or periodic, or at a fold, or where the solve of a derivative would not
    converge; `guess_not_finite`; `non_finite`; `invalid_parameter`.

    **Raises:** `ValueError` for simulations without a finite volume form;
    `RuntimeError` for failures where they raise.

    **Limits:** the state that the solver comes to, of several (mathematics). Growth is
    seen of what those 24 waves hold to a tenth: not of short ones in systems, as of
    Turing's patterns (convenience).
    Preconditioned by diffusion: it takes the longer the more is carried, and without
    diffusion, as of waves, it may not converge (convenience).
    """
    return steady_state_solution(
        simulation,
        solver=solver,
        observe=observe,
        attracting=attracting,
        max_steps=max_steps,
        throw=throw,
    ).value


def steady_state_solution(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    attracting: bool = True,
    max_steps: int = 256,
    throw: bool | None = None,
) -> Solution:
    """`steady_state` with how it went: an `implicit.Solution`, with its arguments.

    ```python
    law = pde.Diffusion(1.0, source=lambda t, x, u: jnp.exp(u))
    rod = pde.Evolution(law, jnp.zeros(64), pde.Grid(64), pde.Dirichlet(0.0))
    found = pde.steady_state_solution(rod)
    found.value, found.status, found.residual, found.iterations
    ```

    **Arguments:** `simulation`, `solver`, `observe`, `attracting`, `max_steps` and
    `throw` as for `steady_state`.

    The residual is that of u, about how far it still is from the answer.
    """
    _check_simulation(simulation)
    solver = or_default(
        "solver", solver, optx.AbstractRootFinder, default=PseudoTransient()
    )
    if observe is not None:
        function_of("observe", observe, ("t", "y"))
    instance("attracting", attracting, bool, "True or False")
    solution = _solve(simulation, solver, observe, attracting, max_steps)
    if not should_raise(throw):
        return solution
    value = raise_if_failed(solution.value, solution.status)
    return eqx.tree_at(lambda s: s.value, solution, value)


@fresh_jit
def _solve(simulation, solver, observe, attracting, max_steps) -> Solution:
    rate, preconditioner = residual_of(simulation)
    guess = simulation.initial_state()
    dynamic, static = eqx.partition(simulation, eqx.is_array)
    pure_rate, consts = closure_convert(
        lambda y, dynamic: rate(y, eqx.combine(dynamic, static)), guess, dynamic
    )

    def function(y, theta):
        return pure_rate(theta[1], y, theta[0])

    adjoint = ImplicitAdjoint(LeftPreconditionedKrylov(_krylov(solver), preconditioner))
    search = functools.partial(_search, max_steps, attracting)
    equation = ImplicitEquation(function, (dynamic, consts), solver, search)
    y, (status, size, steps) = implicit_solve(equation, guess, adjoint)
    is_valid = simulation.is_valid()
    status = RESULTS.where(is_valid, status, RESULTS.invalid_parameter)
    y = nan_unless(y, is_valid)
    observe = simulation.observe if observe is None else observe
    return Solution(observe(simulation.t0, y), status, size, steps)


def _search(max_steps: int, attracting: bool, how, function, guess, theta):
    """The state or NaN, how it went, and nothing that derivatives could use."""
    solver, adjoint = how
    linear_solver = adjoint.linear_solver
    follows = attracting and isinstance(solver, PseudoTransient)

    def distance(y, theta):
        # stop_gradient, so that Newton's Jacobian is L df and not d(L(y) f(y)), which
        # is the same where f is zero. Only the search for y is here: its derivative is
        # that of f, by the implicit function theorem, and loses nothing.
        inverse, _ = _preconditioned_jacobian(
            linear_solver, function, jax.lax.stop_gradient(y), theta
        )
        to_go = inverse(function(y, theta))
        return jax.tree.map(lambda a, b: a.astype(b.dtype), to_go, y)

    def attempt(carry):
        start, *_, steps, tries = carry
        solution = root_solution(
            distance,
            start,
            theta,
            solver=solver,
            # The one without an estimate of the condition number.
            adjoint=ImplicitAdjoint(mode="reverse"),
            max_steps=max_steps,
            throw=False,
        )
        y, status, repels = solution.value, solution.status, tries < 0
        names: Any = RESULTS
        for name in ("nonlinear_divergence", "nonlinear_max_steps_reached", "no_root"):
            is_lost = status == getattr(names, name)
            status = names.where(is_lost, names.no_steady_state, status)
        jacobian = _preconditioned_jacobian(linear_solver, function, y, theta)
        unique = _is_determined(linear_solver.krylov, *jacobian, y)
        is_root = status == names.successful
        unclear = is_root & ~unique
        status = names.where(unclear, names.steady_state_not_determined, status)
        if attracting:
            growth = fastest_growth(*jacobian, y)
            repels = growth.is_growing
            start = _beside(y, growth.wave, guess)
        # A search that fails from beside a state that repels leaves that state.
        is_root = status == names.successful
        status = names.where(is_root & repels, names.unstable_state, status)
        status = names.where(~is_root & (tries > 0), names.unstable_state, status)
        outcome = y, status, solution.residual, repels & is_root
        return start, *outcome, steps + solution.iterations, tries + 1

    nothing = jnp.zeros((), jnp.result_type(*jax.tree.leaves(guess)))
    none = jnp.asarray(0)
    start = guess, guess, RESULTS.successful, nothing, none == 0, none, none
    if follows:
        end = jax.lax.while_loop(lambda c: c[4] & (c[6] < _TRIES), attempt, start)
    else:
        end = attempt(start)
    _, y, status, residual, _, steps, _ = end
    is_found = status == RESULTS.successful
    y = jax.tree.map(lambda a: jnp.where(is_found, a, jnp.nan), y)
    return y, (status, residual, steps), None


def _beside(y: PyTree[Array], wave: PyTree[Array], guess: PyTree[Array]):
    """A state beside y, along a wave, on the side of the guess."""
    pairs = zip(*map(jax.tree.leaves, (guess, y, wave)), strict=True)
    side = sum(jnp.sum((a - b) * w) for a, b, w in pairs)
    size = jnp.maximum(max_norm(y), max_norm(guess))
    size = machine_epsilon(y) ** 0.25 * jnp.where(size > 0, size, 1)
    size = jnp.where(side < 0, -size, size)
    return jax.tree.map(lambda a, w: a + size * w, y, wave)


def _preconditioned_jacobian(
    linear_solver: LeftPreconditionedKrylov, function, y, theta
):
    """M⁻¹ and the Jacobian of the rate, at y."""
    _, operator = jax.linearize(lambda y: function(y, theta), y)
    return linear_solver.preconditioner.at(operator, y), operator


def _is_determined(
    krylov: Krylov, inverse: Callable, operator: Callable, y: PyTree[Array]
) -> Bool[Array, ""]:
    """Whether the Jacobian at y can be solved for a generic right-hand side."""

    def generic(a):  # no null space is orthogonal to it
        signs = jnp.sign(jnp.cos(jnp.arange(1.0, a.size + 1) ** 2))
        return (1 + signs.reshape(a.shape)).astype(a.dtype)

    b = jax.tree.map(generic, y)
    tolerance = machine_epsilon(y) ** 0.5 * jnp.sqrt(krylov.inner(b, b))
    x, _ = krylov.solve_to_tolerance(lambda v: inverse(operator(v)), b, tolerance)
    return is_finite(x)


def _krylov(solver: Any) -> Krylov:
    if not isinstance(solver, AbstractInexactNewton):
        solver = PseudoTransient()
    linear_solver = solver.linear_solver
    assert isinstance(linear_solver, Krylov)
    if linear_solver.preconditioner is not None:
        raise ValueError(
            "the Krylov method of solver has a preconditioner of its own: leave it "
            "out, steady_state preconditions by diffusion"
        )
    return linear_solver


def _check_simulation(simulation: Any):
    """Raise `ValueError` for simulations without a steady state of finite volumes."""
    if isinstance(simulation, IncompressibleFlow):
        hint = "without friction no flow comes to rest"
        positive("viscosity of a steady flow", simulation.viscosity, hint)
        return
    instance("simulation", simulation, Evolution, "pde.Evolution(law, start, grid)")
    equation, discretization = simulation.equation, simulation.discretization
    if not (
        isinstance(equation, AbstractFiniteVolumeEquation)
        and isinstance(discretization, FiniteVolume)
    ):
        raise ValueError(
            f"{type(equation).__name__} must be in finite volumes for a steady state, "
            "as an AbstractFiniteVolumeEquation such as pde.Diffusion(D, source), got "
            f"discretization={type(discretization).__name__}()"
        )


def residual_of(simulation: Any) -> tuple[Callable, AbstractJacobianPreconditioner]:
    """Return `rate(y, simulation)` and the preconditioner of its Jacobian."""
    if isinstance(simulation, Evolution):

        def rate_of_field(u: Array, evolution: Any) -> Array:
            t = jnp.asarray(evolution.t0, u.dtype)
            return evolution.equation.rate(t, u, evolution.domain)

        preconditioner = DiffusionPreconditioner(simulation.domain, simulation.t0)
        return rate_of_field, preconditioner

    def rate(u: Faces, flow: Any) -> Faces:
        forces, t = flow._forces, flow._time(flow.t0)
        near = leray_project(forces.space, u, t)
        # Walls keep their velocity, and what diverges in u decays.
        forced = project_out_gradient(forces.space, forces.total(t, near), None)[0]
        return tuple(a + b - c for a, b, c in zip(forced, near, u, strict=True))

    forces = simulation._forces
    return rate, StokesPreconditioner.of(forces.space, forces.viscosity)
