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
from .._results import RESULTS, failures_as_nan, is_finite, value_or_solution
from .._types import PyTree
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
from ._inexact_newton import AbstractInexactNewton
from ._iteration import iterate
from ._layer_arguments import explain_derivatives
from ._newton import Newton, linearized
from ._newton_krylov import NewtonKrylov
from ._picard import Picard
from ._scaling import is_bowl
from ._solution import Solution


class ProblemType(NamedTuple):
    """A way of defining y by a function of it.

    `equation(given)` is the f with f(y, θ) = 0 that is differentiated; `find` runs a
    solver of Optimistix on what was given; `no_answer` names the `RESULTS` of a solver
    that stops where f does not vanish. `objective(given)` is what y makes least, if it
    does, and then f is its gradient, or with `held` part of that. `name` is that of the
    argument in which it was given.
    """

    name: str
    equation: Callable[[Callable], Callable]
    find: Callable[..., optx.Solution]
    no_answer: str
    objective: Callable[[Callable], Callable] | None = None
    held: bool = False


def solve_layer(
    kind: ProblemType,
    given: Callable,
    guess: PyTree[Array],
    args: PyTree,
    solver: Any,
    adjoint: Any,
    max_steps: int,
    *,
    throw: bool | None,
    full: bool,
) -> Solution | PyTree[Array]:
    """The y that `kind` defines by `given`: the value, or with `full` a `Solution`."""
    _check_solver(solver)
    check_adjoint(adjoint)
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be 1 or more, an int, got {max_steps!r}")
    if not any(leaf.size for leaf in jax.tree.leaves(guess)):
        return value_or_solution(Solution.of_nothing(guess), throw=throw, full=full)
    with explain_derivatives(kind.name, given, implicit_options(adjoint).mode):
        found = _solve_layer(kind, given, guess, args, solver, adjoint, max_steps, full)
    # Equinox's errors have a type that `shard_map` refuses; there NaN has to do.
    throw = False if _inside_shard_map() else throw
    return value_or_solution(found, throw=throw, full=full)


def _check_solver(solver: Any) -> None:
    if isinstance(solver, type):
        raise ValueError(
            f"solver must be a solver, got the class {solver.__name__}; call it, "
            f"{solver.__name__}(...)"
        )
    if not isinstance(solver, optx.AbstractIterativeSolver | BracketedNewton):
        raise ValueError(
            f"solver must be a solver of diffsim.implicit or of Optimistix, or None, "
            f"got {solver!r:.60}; try Newton() or optimistix.Dogleg(1e-8, 1e-8)"
        )


@fresh_jit
def _solve_layer(
    kind: ProblemType, given, guess, args, solver, adjoint, max_steps, full
):
    # A layer inside the function is asked at trial steps and, of a batch, for members
    # that have long ended: it has no say in what fails, this one judges what it made.
    with failures_as_nan():
        guess = _with_common_dtype(kind, given, guess, args)
        closed, theta = close_over(given, guess, args)
    function = kind.equation(closed)

    def solve(how, function, y, theta):
        solver, adjoint = how
        start, begun = y, is_finite(y)
        y, status, steps, hint = _search(
            kind, closed, function, y, theta, solver, adjoint, max_steps
        )
        least = None if kind.objective is None else kind.objective(closed)
        y = _refine(function, least, y, theta, implicit_options(adjoint))
        if least is not None:
            good = _is_minimum(least, None if kind.held else function, start, y, theta)
            wrong = (status == RESULTS.successful) & is_finite(y) & ~good
            status = RESULTS.where(wrong, RESULTS.no_minimum, status)
        value, status, size = _check_solution(
            function,
            theta,
            start,
            y,
            status,
            kind,
            solver,
            backward=implicit_options(adjoint).mode == "reverse",
        )
        status = RESULTS.where(begun, status, RESULTS.guess_not_finite)
        return value, (status, size, steps), hint

    equation = ImplicitEquation(function, theta, solver, solve)
    value, (status, size, steps) = implicit_solve(equation, guess, adjoint)
    found = Solution(value, status, size, steps)
    if not full:
        return found
    options = implicit_options(adjoint)
    if adjoint is not options and isinstance(solver, Newton | AbstractInexactNewton):
        # Where the iterations are unrolled, theirs is the only linear solver.
        options = ImplicitAdjoint(solver.linear_solver)
    number = _condition_of(function, value, theta, options)
    return dataclasses.replace(found, condition=number)


def close_over(given: Callable, y: PyTree[Array], args: PyTree):
    """`given` as a function of y and θ, and θ: `args` and what it closes over."""
    dynamic, static = eqx.partition(args, eqx.is_array)
    function, consts = closure_convert(
        lambda y, dynamic: given(y, eqx.combine(dynamic, static)), y, dynamic
    )
    return lambda y, theta: function(theta[1], y, theta[0]), (dynamic, consts)


def _with_common_dtype(kind: ProblemType, given, guess: PyTree[Array], args: PyTree):
    """The guess, varying over the mesh of a surrounding `shard_map` as f does.

    What is traced for a guess that is the same everywhere would be run with a y that
    is not, which `shard_map` refuses. Any leaf of f may come to depend on any of y.
    """
    if not _inside_shard_map():
        return guess
    size = max_norm(kind.equation(given)(guess, args))
    return jax.tree.map(lambda a: jnp.where(False, size.astype(a.dtype), a), guess)


def _inside_shard_map() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _search(
    kind: ProblemType, closed, function, y, theta, solver, adjoint: Adjoint, max_steps
):
    """y, a status, the number of steps and what the derivative can reuse."""
    if isinstance(solver, BracketedNewton):
        leaves, structure = jax.tree.flatten(y)
        found = [solver.found(function, a, theta) for a in leaves]
        y = jax.tree.unflatten(structure, [a for a, _ in found])
        reached = jnp.all(jnp.stack([jnp.all(known) for _, known in found]))
        names: Any = RESULTS
        late = names.nonlinear_max_steps_reached
        status = names.where(reached, names.successful, late)
        status = names.where(is_finite(y), status, names.no_bracket)
        met = [solver.vanishes(function, a, theta) for a in jax.tree.leaves(y)]
        crossed = (status == names.successful) & ~jnp.all(jnp.stack(met))
        status = names.where(crossed, names.no_root, status)
        return y, status, jnp.asarray(solver.steps), None
    own = isinstance(solver, Newton | NewtonKrylov | Anderson | Picard)
    if own and isinstance(adjoint, ImplicitAdjoint):
        # Newton's methods are for the equation, those of fixed points for the map.
        newton = isinstance(solver, optx.AbstractRootFinder)
        target = function if newton else closed
        y, state, status, steps = iterate(solver, target, y, theta, max_steps)
        linear_solver = adjoint.linear_solver
        last: Any = state
        if isinstance(solver, Newton):
            # Where there is no step, the last place is where it would have begun.
            y = _select(last.singular, last.origin, y)
            if linear_solver.reuses(solver.linear_solver):
                return y, status, steps, last.factor
        return y, status, steps, None
    # Where the answer has its derivative by the equation, nothing is asked of this one.
    inner = optx.ImplicitAdjoint() if isinstance(adjoint, ImplicitAdjoint) else adjoint
    # Optimistix has steps of the default type, whatever y is.
    own = isinstance(solver, AbstractInexactNewton)
    widen = (lambda tree: tree) if own else _at_least_default
    found = kind.find(
        lambda z, theta: widen(closed(_like(z, y), theta)),
        solver,
        widen(y),
        theta,
        max_steps=max_steps,
        throw=False,
        adjoint=inner,
    )
    steps = jnp.asarray(found.stats["num_steps"])
    return _like(found.value, y), RESULTS.promote(found.result), steps, None


def _at_least_default(tree: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(
        lambda a: a.astype(jnp.promote_types(a.dtype, jnp.result_type(float))), tree
    )


def _like(tree: PyTree[Array], like: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: a.astype(b.dtype), tree, like)


def _refine(function, objective, y, theta, adjoint: ImplicitAdjoint):
    for _ in range(adjoint.refinements):
        (value, _), _, solve = linearized(
            lambda z: (function(z, theta), None),
            y,
            adjoint.linear_solver,
            backward=adjoint.mode == "reverse",
        )
        new = jax.tree.map(jnp.subtract, y, solve(value))
        if objective is not None:
            # Far from a minimum a step may lead to a maximum, or anywhere.
            worse = _has_risen(objective(y, theta), objective(new, theta), y)
            new = _select(worse, y, new)
        y = new
    return y


def _select(first: Array, a: PyTree[Array], b: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), a, b)


def _has_risen(before, after, y) -> Array:
    allowed = machine_epsilon(y) ** 0.75 * jnp.abs(before)
    # False where a step is NaN: that is said of it elsewhere.
    return (after - before > allowed) | jnp.isinf(after)


def _is_minimum(objective, gradient, start, y, theta) -> Array:
    """Whether y is no worse than the guess, and the objective bends up around it."""
    better = ~_has_risen(objective(start, theta), objective(y, theta), y)
    if gradient is None:
        return better
    return better & is_bowl(lambda z: gradient(z, theta), y, start)


def _check_solution(
    function, theta, start, y, status, kind: ProblemType, solver, *, backward: bool
):
    """The answer or NaN, its status, and the largest entry of f."""
    good, no_answer = RESULTS.successful, getattr(RESULTS, kind.no_answer)
    here = function(y, theta)
    size = max_norm(here)
    singular = status == RESULTS.singular
    status = RESULTS.where(singular, RESULTS.no_linear_solution, status)
    lost = (status == good) & ~is_finite(y)
    status = RESULTS.where(lost, RESULTS.no_linear_solution, status)
    if isinstance(solver, Newton | NewtonKrylov) and not backward:
        stuck = singular | (status == RESULTS.nonlinear_divergence)
        stuck &= _is_least(function, y, theta, start, here)
        status = RESULTS.where(stuck, no_answer, status)
    if not _is_certain(solver):
        wrong = jnp.isfinite(size) & _is_large(kind, function, y, theta, start, here)
        status = RESULTS.where((status == good) & wrong, no_answer, status)
    broken = ~jnp.isfinite(size)
    status = RESULTS.where((status == good) & broken, RESULTS.non_finite, status)
    value = jax.tree.map(lambda a: jnp.where(status == good, a, jnp.nan), y)
    return value, status, size


def _is_least(function, y, theta, start, here) -> Array:
    """Whether |f| hardly falls, to first order, if y moves by its size or its way."""
    probe = _hundredth(y, start)
    _, change = jax.jvp(lambda z: function(z, theta), (y,), (probe,))
    value, change = ravel_pytree(here)[0], ravel_pytree(change)[0]
    return jnp.abs(matmul(value, change)) <= 1e-5 * matmul(value, value)


def _is_certain(solver) -> bool:
    """Whether a solver says itself, by no tolerance in units of y, what a root is."""
    if isinstance(solver, BracketedNewton):
        return True
    return isinstance(solver, Newton | NewtonKrylov) and solver.atol is None


def _is_large(kind: ProblemType, function, y, theta, start, here) -> Array:
    """Whether |f| is above what f changes by if y does by up to a hundredth.

    A solver of rough tolerances stops where |f| is above rounding, but below this; at a
    minimum of |f| that is no root, f hardly changes. A hundredth of y or of the way to
    it, for only these tell in what units y is. The changes are irregular, so that no
    stencil is blind to them, and no derivative is needed, so that f may have none.
    """

    there = function(jax.tree.map(jnp.add, y, _hundredth(y, start)), theta)

    def large(there, here):
        change = max_norm(there - here)
        # What overflows says nothing for a root, of which nothing else is known.
        unknown = 0 if kind.objective is None else jnp.inf
        return max_norm(here) > jnp.where(jnp.isfinite(change), change, unknown)

    each = jax.tree.leaves(jax.tree.map(large, there, here))
    return jnp.any(jnp.stack(each))


def _hundredth(y: PyTree[Array], start: PyTree[Array]) -> PyTree[Array]:
    """A hundredth of y, or of the way to it from `start`, of either sign."""

    def one(a, start, before):
        # Counted on from leaf to leaf: scalars that all moved alike would leave their
        # differences where they are, at rounding.
        count = before + jnp.arange(1.0, a.size + 1)
        wave = jnp.cos(count**2).astype(a.dtype)
        size = jnp.maximum(jnp.abs(a), jnp.abs(a - start))
        # Begun at a root at zero, an unknown tells nothing, and may be of any units.
        unknown = (start == 0) & (size <= jnp.finfo(a.dtype).eps)
        size = jnp.where(unknown, 1, size)
        return 0.01 * wave.reshape(a.shape) * size

    leaves, structure = jax.tree.flatten(y)
    before = np.cumsum([0, *(a.size for a in leaves)])[:-1]
    places = jax.tree.unflatten(structure, before.tolist())
    return jax.tree.map(one, y, start, places)


def _condition_of(function, value, theta, adjoint: ImplicitAdjoint) -> Array:
    # An estimate to judge by, of which nobody asks how it depends on parameters.
    y, theta = jax.lax.stop_gradient((value, theta))
    if adjoint.mode == "reverse":
        return max_norm(y) * jnp.nan
    _, operator = jax.linearize(lambda z: function(z, theta), y)
    number = condition_number(operator, y, adjoint.linear_solver)
    return jnp.where(is_finite(y), number, jnp.nan)
