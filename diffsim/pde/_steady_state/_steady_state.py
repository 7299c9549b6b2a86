"""`steady_state`: steady states, and how they depend on every parameter."""

import functools
from collections.abc import Callable
from typing import Any, Literal, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool

from ..._jaxpr._tracing import closure_convert
from ..._jit._fresh_jit import fresh_jit
from ..._linalg import machine_epsilon, max_norm
from ..._results import RESULTS, is_finite, nan_unless, value_or_solution
from ..._types import PyTree
from ..._validation import function_of, instance
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
from ._growth import fastest_growth
from ._jacobian_preconditioner import LeftPreconditionedKrylov
from ._pseudo_transient import PseudoTransient
from ._steady_residual import check_simulation, residual_of


#: How often `PseudoTransient` sets out, the first time from the guess.
_TRIES = 3


@overload
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    attracting: bool = True,
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
    attracting: bool = True,
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
    attracting: bool = True,
    max_steps: int = 256,
    throw: bool | None = None,
    full: bool,
) -> PyTree[Array] | Solution: ...
def steady_state(
    simulation: AbstractSimulation,
    *,
    solver: Any = None,
    observe: Callable[[Any, Any], Any] | None = None,
    attracting: bool = True,
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
    - `full`: return an `implicit.Solution` with status, residual and iterations; the
        residual is that of u, about how far it still is from the answer.

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
    check_simulation(simulation)
    solver = PseudoTransient() if solver is None else solver
    if not isinstance(solver, optx.AbstractRootFinder):
        raise ValueError(
            "solver must be pde.PseudoTransient(), implicit.NewtonKrylov() or another "
            f"root-finder, got {solver!r:.60}"
        )
    if observe is not None:
        function_of("observe", observe, ("t", "y"))
    instance("attracting", attracting, bool, "True or False")
    found = _solve(simulation, solver, observe, attracting, max_steps)
    return value_or_solution(found, throw=throw, full=full)


@fresh_jit
def _solve(simulation, solver, observe, attracting, max_steps) -> Solution:
    rate, preconditioner = residual_of(simulation)
    guess = simulation.initial_state()
    dynamic, static = eqx.partition(simulation, eqx.is_array)
    opened, consts = closure_convert(
        lambda y, dynamic: rate(y, eqx.combine(dynamic, static)), guess, dynamic
    )

    def function(y, theta):
        return opened(theta[1], y, theta[0])

    adjoint = ImplicitAdjoint(LeftPreconditionedKrylov(_krylov(solver), preconditioner))
    search = functools.partial(_search, max_steps, attracting)
    equation = ImplicitEquation(function, (dynamic, consts), solver, search)
    y, (status, size, steps) = implicit_solve(equation, guess, adjoint)
    proper = simulation.is_valid()
    status = RESULTS.where(proper, status, RESULTS.invalid_parameter)
    y = nan_unless(y, proper)
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
        found = inverse(function(y, theta))
        return jax.tree.map(lambda a, b: a.astype(b.dtype), found, y)

    def attempt(carry):
        start, *_, steps, tries = carry
        found = root(
            distance,
            start,
            theta,
            solver=solver,
            # The one without an estimate of the condition number.
            adjoint=ImplicitAdjoint(mode="reverse"),
            max_steps=max_steps,
            throw=False,
            full=True,
        )
        y, status, repels = found.value, _steady_status(found.status), tries < 0
        jacobian = _preconditioned_jacobian(linear_solver, function, y, theta)
        unique = _is_determined(linear_solver.krylov, *jacobian, y)
        names: Any = RESULTS
        good = status == names.successful
        status = names.where(good & ~unique, names.steady_state_not_determined, status)
        if attracting:
            growth = fastest_growth(*jacobian, y)
            repels = growth.is_growing
            start = _beside(y, growth.wave, guess)
        # What could not be found from beside a state that repels leaves that.
        good = status == names.successful
        status = names.where(good & repels, names.unstable_state, status)
        status = names.where(~good & (tries > 0), names.unstable_state, status)
        about = y, status, found.residual, repels & good
        return start, *about, steps + found.iterations, tries + 1

    nothing = jnp.zeros((), jnp.result_type(*jax.tree.leaves(guess)))
    none = jnp.asarray(0)
    start = guess, guess, RESULTS.successful, nothing, none == 0, none, none
    if follows:
        end = jax.lax.while_loop(lambda c: c[4] & (c[6] < _TRIES), attempt, start)
    else:
        end = attempt(start)
    _, y, status, residual, _, steps, _ = end
    good = status == RESULTS.successful
    y = jax.tree.map(lambda a: jnp.where(good, a, jnp.nan), y)
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


def _steady_status(status: RESULTS) -> RESULTS:
    """Say of a failed search that it found no steady state."""
    names: Any = RESULTS
    for name in ("nonlinear_divergence", "nonlinear_max_steps_reached", "no_root"):
        lost = status == getattr(names, name)
        status = names.where(lost, names.no_steady_state, status)
    return status


def _is_determined(
    krylov: Krylov, inverse: Callable, operator: Callable, y: PyTree[Array]
) -> Bool[Array, ""]:
    """Whether the Jacobian at y can be solved for a generic right-hand side."""
    b = jax.tree.map(_generic_vector, y)
    tolerance = machine_epsilon(y) ** 0.5 * jnp.sqrt(krylov.inner(b, b))
    x, _ = krylov.solve_to_tolerance(lambda v: inverse(operator(v)), b, tolerance)
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
