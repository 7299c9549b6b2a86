"""Implicit layer: the base of `root`, `fixed_point`, `minimise`, `least_squares`."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._jaxpr._tracing import closure_convert
from .._jit._fresh_jit import fresh_jit
from .._linalg import machine_epsilon, matmul, max_norm
from .._results import RESULTS, failures_as_nan, is_finite
from .._types import PyTree
from .._validation import count, instance
from ._anderson import Anderson
from ._bracketed_newton import BracketedNewton
from ._condition_number import condition_number
from ._implicit_differentiation import (
    Adjoint,
    ImplicitAdjoint,
    ImplicitEquation,
    check_adjoint,
    implicit_options,
    implicit_solve,
)
from ._iteration import iterate
from ._layer_arguments import explain_derivatives
from ._newton import Newton, linearized
from ._newton_krylov import AbstractInexactNewton, NewtonKrylov
from ._picard import Picard
from ._scaling import is_bowl
from ._solution import Solution, raise_on_failure


class ProblemType(NamedTuple):
    """A way of defining y by a function of it, the argument `name` of a layer.

    `equation(function)` is the f with f(y, θ) = 0 that is differentiated; `find` runs a
    solver of Optimistix on the function; `no_answer` names the `RESULTS` of a solver
    that stops where f does not vanish. `objective(function)` is what y makes least, if
    it does, and then f is its gradient, or with `held` part of that.
    """

    name: str
    equation: Callable[[Callable], Callable]
    find: Callable[..., optx.Solution]
    no_answer: str
    objective: Callable[[Callable], Callable] | None = None
    held: bool = False


def solve_layer(
    kind: ProblemType,
    function: Callable,
    guess: PyTree[Array],
    args: PyTree,
    solver: Any,
    adjoint: Any,
    max_steps: int,
    throw: bool | None,
    condition: bool,
) -> Solution:
    """The y that `kind` defines by `function`, and if wanted its `condition` number."""
    example = "implicit.Newton() or optimistix.Dogleg(1e-8, 1e-8)"
    instance("solver", solver, optx.AbstractIterativeSolver | BracketedNewton, example)
    check_adjoint(adjoint)
    max_steps = count("max_steps", max_steps)
    if not any(leaf.size for leaf in jax.tree.leaves(guess)):
        return Solution.of_nothing(guess)
    with explain_derivatives(kind.name, function, implicit_options(adjoint).mode):
        solution = _solve_layer(
            kind, function, guess, args, solver, adjoint, max_steps, condition
        )
    # Equinox's errors have a type that `shard_map` refuses; there NaN has to do.
    return raise_on_failure(solution, False if _inside_shard_map() else throw)


@fresh_jit
def _solve_layer(
    kind: ProblemType, function, guess, args, solver, adjoint, max_steps, condition
) -> Solution:
    # A layer inside the function runs at trial steps and, in a batch, for members that
    # have ended long ago: its failures are judged here, by what this layer makes.
    with failures_as_nan():
        if _inside_shard_map():
            # The guess has to vary over the mesh as f does: `shard_map` refuses to run
            # for such a y what was traced for another. Any leaf of f may depend on any.
            size = max_norm(kind.equation(function)(guess, args))
            guess = jax.tree.map(
                lambda a: jnp.where(False, size.astype(a.dtype), a), guess
            )
        closed, theta = _close_over(function, guess, args)
    equation = kind.equation(closed)
    objective = None if kind.objective is None else kind.objective(closed)

    def solve(how, equation, y, theta):
        solver, adjoint = how
        start, is_begun = y, is_finite(y)
        y, status, steps, hint = _search(
            kind, closed, equation, y, theta, solver, adjoint, max_steps
        )
        adjoint = implicit_options(adjoint)
        y = _refine(equation, objective, y, theta, adjoint)
        if objective is not None:
            # y has to be no worse than the guess, and the objective to bend up around.
            is_best = ~_has_risen(objective(start, theta), objective(y, theta), y)
            if not kind.held:
                is_best &= is_bowl(lambda z: equation(z, theta), y, start)
            wrong = (status == RESULTS.successful) & is_finite(y) & ~is_best
            status = RESULTS.where(wrong, RESULTS.no_minimum, status)
        status, residual = _judge(
            kind, equation, theta, start, y, status, solver, adjoint.mode
        )
        y = jax.tree.map(
            lambda a: jnp.where(status == RESULTS.successful, a, jnp.nan), y
        )
        status = RESULTS.where(is_begun, status, RESULTS.guess_not_finite)
        return y, (status, residual, steps), hint

    problem = ImplicitEquation(equation, theta, solver, solve)
    y, (status, residual, steps) = implicit_solve(problem, guess, adjoint)
    solution = Solution(y, status, residual, steps)
    if not condition:
        return solution
    options = implicit_options(adjoint)
    if adjoint is not options and isinstance(solver, Newton | AbstractInexactNewton):
        # Where the iterations are unrolled, theirs is the only linear solver.
        options = ImplicitAdjoint(solver.linear_solver)
    # The estimate has no derivative.
    y, theta = jax.lax.stop_gradient((y, theta))
    if options.mode == "reverse":
        number = max_norm(y) * jnp.nan
    else:
        _, operator = jax.linearize(lambda z: equation(z, theta), y)
        number = condition_number(operator, y, options.linear_solver)
        number = jnp.where(is_finite(y), number, jnp.nan)
    return dataclasses.replace(solution, condition=number)


def _close_over(function: Callable, y: PyTree[Array], args: PyTree):
    """`function` of y and θ, and θ: `args` and what the function closes over."""
    dynamic, static = eqx.partition(args, eqx.is_array)
    closed, constants = closure_convert(
        lambda y, dynamic: function(y, eqx.combine(dynamic, static)), y, dynamic
    )
    return lambda y, theta: closed(theta[1], y, theta[0]), (dynamic, constants)


def _inside_shard_map() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _search(
    kind: ProblemType, closed, equation, y, theta, solver, adjoint: Adjoint, max_steps
):
    """y, a status, the number of steps and what the derivative can reuse."""
    if isinstance(solver, BracketedNewton):
        leaves, structure = jax.tree.flatten(y)
        searches = [solver.found(equation, a, theta) for a in leaves]
        y = jax.tree.unflatten(structure, [a for a, _ in searches])
        reached = jnp.all(jnp.stack([jnp.all(reached) for _, reached in searches]))
        late = RESULTS.nonlinear_max_steps_reached
        status = RESULTS.where(reached, RESULTS.successful, late)
        status = RESULTS.where(is_finite(y), status, RESULTS.no_bracket)
        vanishes = [solver.vanishes(equation, a, theta) for a in jax.tree.leaves(y)]
        jumps = (status == RESULTS.successful) & ~jnp.all(jnp.stack(vanishes))
        status = RESULTS.where(jumps, RESULTS.no_root, status)
        return y, status, jnp.asarray(solver.steps), None

    is_implicit = isinstance(adjoint, ImplicitAdjoint)
    if is_implicit and isinstance(solver, Newton | NewtonKrylov | Anderson | Picard):
        # Newton's methods are for the equation, those of fixed points for the map.
        is_newton = isinstance(solver, optx.AbstractRootFinder)
        target = equation if is_newton else closed
        y, state, status, steps = iterate(solver, target, y, theta, max_steps)
        hint = None
        if isinstance(solver, Newton):
            # Where there is no step, the last place is where it would have begun.
            y = _select(state.singular, state.origin, y)
            if adjoint.linear_solver.reuses(solver.linear_solver):
                hint = state.factor
        return y, status, steps, hint

    def widen(tree):
        # Optimistix has steps of the default type, whatever y is.
        if isinstance(solver, AbstractInexactNewton):
            return tree
        default = jnp.result_type(float)
        return jax.tree.map(
            lambda a: a.astype(jnp.promote_types(a.dtype, default)), tree
        )

    def narrow(tree):
        return jax.tree.map(lambda a, b: a.astype(b.dtype), tree, y)

    run = kind.find(
        lambda z, theta: widen(closed(narrow(z), theta)),
        solver,
        widen(y),
        theta,
        max_steps=max_steps,
        throw=False,
        # Where y has its derivative by the equation, none of the search is asked for.
        adjoint=optx.ImplicitAdjoint() if is_implicit else adjoint,
    )
    steps = jnp.asarray(run.stats["num_steps"])
    return narrow(run.value), RESULTS.promote(run.result), steps, None


def _refine(equation, objective, y, theta, adjoint: ImplicitAdjoint):
    for _ in range(adjoint.refinements):
        (value, _), _, solve = linearized(
            lambda z: (equation(z, theta), None),
            y,
            adjoint.linear_solver,
            backward=adjoint.mode == "reverse",
        )
        new = jax.tree.map(jnp.subtract, y, solve(value))
        if objective is not None:
            # Far from a minimum a step may lead to a maximum, or anywhere.
            is_worse = _has_risen(objective(y, theta), objective(new, theta), y)
            new = _select(is_worse, y, new)
        y = new
    return y


def _select(first: Array, a: PyTree[Array], b: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), a, b)


def _has_risen(before, after, y) -> Array:
    allowed = machine_epsilon(y) ** 0.75 * jnp.abs(before)
    # A step that is NaN counts as none: another status names it.
    return (after - before > allowed) | jnp.isinf(after)


def _judge(kind: ProblemType, equation, theta, start, y, status, solver, mode: str):
    """The status of y, where a solver stopped, and the largest entry of f there."""
    no_answer = getattr(RESULTS, kind.no_answer)
    here = equation(y, theta)
    size = max_norm(here)
    is_singular = status == RESULTS.singular
    status = RESULTS.where(is_singular, RESULTS.no_linear_solution, status)
    is_lost = (status == RESULTS.successful) & ~is_finite(y)
    status = RESULTS.where(is_lost, RESULTS.no_linear_solution, status)
    if isinstance(solver, Newton | NewtonKrylov) and mode != "reverse":
        # At a minimum of |f| it hardly falls, to first order, if y moves.
        is_stuck = is_singular | (status == RESULTS.nonlinear_divergence)
        probe = _hundredth(y, start)
        _, change = jax.jvp(lambda z: equation(z, theta), (y,), (probe,))
        value, change = ravel_pytree(here)[0], ravel_pytree(change)[0]
        is_stuck &= jnp.abs(matmul(value, change)) <= 1e-5 * matmul(value, value)
        status = RESULTS.where(is_stuck, no_answer, status)
    # Some solvers say themselves, by no tolerance in units of y, what a root is.
    is_certain = isinstance(solver, BracketedNewton) or (
        isinstance(solver, Newton | NewtonKrylov) and solver.atol is None
    )
    if not is_certain:
        # A solver of rough tolerances stops where |f| is above rounding, but below what
        # it changes by beside y; at a minimum of |f| that is no root, f hardly changes.
        # No derivative is taken, so that f may have none.
        is_known = jnp.isfinite(size)
        probe = _hundredth(y, start)
        beside = equation(jax.tree.map(jnp.add, y, probe), theta)

        def is_large(beside, here):
            change = max_norm(beside - here)
            # A change that overflows says nothing for a root, which has no other test.
            unknown = 0 if kind.objective is None else jnp.inf
            return max_norm(here) > jnp.where(jnp.isfinite(change), change, unknown)

        each = jax.tree.leaves(jax.tree.map(is_large, beside, here))
        wrong = is_known & jnp.any(jnp.stack(each))
        status = RESULTS.where(
            (status == RESULTS.successful) & wrong, no_answer, status
        )
    is_broken = ~jnp.isfinite(size)
    return RESULTS.where(
        (status == RESULTS.successful) & is_broken, RESULTS.non_finite, status
    ), size


def _hundredth(y: PyTree[Array], start: PyTree[Array]) -> PyTree[Array]:
    """A hundredth of y, or of the way to it from `start`, of either sign.

    Only these tell in what units y is. The signs are irregular, so that no stencil is
    blind to them.
    """

    def hundredth(a, start, before):
        # Counted on from leaf to leaf: scalars that all moved alike would leave their
        # differences where they are, at rounding.
        place = before + jnp.arange(1.0, a.size + 1)
        wave = jnp.cos(place**2).astype(a.dtype)
        size = jnp.maximum(jnp.abs(a), jnp.abs(a - start))
        # Begun at a root at zero, an unknown tells nothing, and may be of any units.
        unknown = (start == 0) & (size <= jnp.finfo(a.dtype).eps)
        size = jnp.where(unknown, 1, size)
        return 0.01 * wave.reshape(a.shape) * size

    leaves, structure = jax.tree.flatten(y)
    before = np.cumsum([0, *(a.size for a in leaves)])[:-1]
    before = jax.tree.unflatten(structure, before.tolist())
    return jax.tree.map(hundredth, y, start, before)
