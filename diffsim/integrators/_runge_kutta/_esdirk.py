"""`AbstractImplicitRungeKutta`: diagonally implicit Runge–Kutta methods (ESDIRK)."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..._results import is_finite
from ..._types import PyTree
from ..._validation import count
from ...implicit import (
    AbstractLinearSolver,
    Dense,
    ImplicitAdjoint,
    ImplicitEquation,
    implicit_solve,
)
from ...simulations import AbstractIMEXTerm
from ._simplified_newton import Tolerances
from ._stage_solver import (
    JacobianFactor,
    StageProblem,
    StageSolutions,
    no_factor,
    solve_stages,
    split_vector_field,
    step_length,
)
from ._tableau import (
    Tableau,
    add_scaled,
    empty_stages,
    linear_combination,
    rows,
    stacked_linear_combination,
    with_stage,
)


#: The implicit slopes of a stage and the explicit ones, None where there are none.
Slopes = tuple[PyTree[Array], PyTree[Array] | None]


class SolverState(eqx.Module):
    """State between steps: the last stage derivatives and the factor of the stages.

    `slopes` is None where the next step does not begin where the last stage ended.
    """

    slopes: Slopes | None
    factor: JacobianFactor | None


class CompletedStep(NamedTuple):
    """Where a step led, its error estimate, all slopes, and what the next one needs.

    A step that failed leads nowhere: `y` is the state that it began with. `error` is
    None where the tableau has no estimate.
    """

    y: PyTree[Array]
    error: PyTree[Array] | None
    slopes: list[PyTree[Array]]
    explicit: list[PyTree[Array]]
    factor: JacobianFactor | None
    converged: Bool[Array, ""]
    length: Array


class IMEXStep(NamedTuple):
    """One step of split dynamics: from y at t by `length`, `args` for its functions.

    `slope` is the implicit one at its start, `explicit` the other one, None where
    everything is implicit.
    """

    split: AbstractIMEXTerm
    t: Array
    length: Array
    y: PyTree[Array]
    slope: PyTree[Array]
    explicit: PyTree[Array] | None
    args: Any


class AbstractImplicitRungeKutta(diffrax.AbstractSolver[SolverState]):
    r"""Diagonally implicit Runge–Kutta method, with the stage derivatives:

    $$k_i = f\bigl(t_i,\; y + h \sum_{j<i} a_{ij} k_j + \gamma h\,k_i\bigr) .$$

    Each is an equation for its own slope, solved by Newton's method with one factor of
    $1 - \gamma h\,\partial f/\partial y$ for all of them. The factor is kept from step
    to step for as long as Newton's method gains a digit an iteration by it and $h$
    changes by less than a fifth. What is differentiated is the equations and not how
    they were solved, so derivatives are exact in every mode and nesting, under every
    adjoint, whatever the factor was.

    Dynamics that know how to solve for themselves, a `simulations.IMEXTerm`, are asked
    to, and no Newton's method is run.

    **Arguments**

    - `linear_solver`: by what is known of $\partial f/\partial y$, once for the stages,
        their tangents and adjoints: `implicit.Dense()`, `Tridiagonal()`, `Banded(...)`,
        `BlockTridiagonal()`, or `Krylov(preconditioner=...)`, which makes no matrix.
    - `rtol`, `atol`: error that Newton's method may leave in the state of a stage. None
        is 2e-12 of an entry and 5e-14 of the largest one in float64, and the same
        powers of the precision in float32.
    - `iterations`: of Newton's method in a stage, before the step counts as failed.

    Where a `diffrax.PIDController`, the default, chooses the steps, one ends at every
    output: dense output, of order 2 or 3, would be a thousand times less accurate than
    long steps are. For outputs by the thousand that need no more, wrap the controller:
    `diffrax.ClipStepSizeController(diffrax.PIDController(rtol=1e-6, atol=1e-6))`.

    A failed step is rejected and made shorter by a controller; at fixed steps the run
    ends in NaN and a `RESULTS`. A solver with an error estimate is a
    `diffrax.AbstractAdaptiveSolver` as well.

    **Good values:** the defaults. `rtol` and `atol` belong a hundred times below the
    controller's; entries that matter at 1e-12 of the largest need their own `atol`.

    **Limits:** the factor is that of the start of a step, so a long one over a strong
    nonlinearity fails where a new factor for every iteration would not (convenience).
    `linear_solver` is not given $\gamma h$, and neither is a preconditioner
    (convenience). One that presumes another structure than there is makes steps slow or
    fail, and derivatives NaN (convenience: stages are iterated, not checked).
    Derivatives factor the matrix of every stage (convenience).
    """

    linear_solver: AbstractLinearSolver = eqx.field(default=Dense(), kw_only=True)
    rtol: float | None = eqx.field(default=None, kw_only=True)
    atol: float | None = eqx.field(default=None, kw_only=True)
    iterations: int = eqx.field(static=True, default=50, kw_only=True)

    #: The coefficients.
    tableau: eqx.AbstractClassVar[Tableau]
    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation
    #: Under the error that a step may have, dense output of order 2 or 3 is coarse.
    ends_steps_at_outputs: ClassVar[bool] = True

    def __check_init__(self) -> None:
        count("iterations", self.iterations, 2)

    @property
    def split(self) -> bool:
        """Whether it steps an explicit and an implicit part each in its way."""
        return self.tableau.explicit is not None

    def order(self, terms: Any) -> int:
        del terms
        return self.tableau.order

    def init(self, terms: Any, t0: Any, t1: Any, y0: PyTree, args: Any) -> SolverState:
        start = self._leap(terms, t0, t1, y0, args, _evaluate)
        factor = None
        if start is None:
            start = self._problem(terms, t0, t1, y0, args, _evaluate)
            factor = no_factor(self.linear_solver, start)
        kept = self.tableau.ends_in_last_stage
        return SolverState((start.slope, start.explicit) if kept else None, factor)

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: PyTree,
        args: Any,
        solver_state: SolverState,
        made_jump: Any,
    ) -> tuple[PyTree, PyTree | None, dict[str, PyTree], SolverState, diffrax.RESULTS]:
        first = partial(_first_stage, solver_state.slopes, made_jump)
        leap = self._leap(terms, t0, t1, y0, args, first)
        if leap is not None:
            done = imex_step(self.tableau, leap)
            return self._ended(done, y0, (leap.slope, leap.explicit))
        linear_solver = self.linear_solver
        factor = solver_state.factor
        assert factor is not None
        problem = self._problem(terms, t0, t1, y0, args, first)
        if made_jump is not False:
            rate = jnp.where(made_jump, jnp.inf, factor.rate)
            factor = JacobianFactor(factor.prepared, factor.length, rate)
        tolerances = Tolerances(self.rtol, self.atol, self.iterations)
        done = esdirk_step(self.tableau, linear_solver, tolerances, problem, factor)
        return self._ended(done, y0, (problem.slope, problem.explicit))

    def _ended(self, done: CompletedStep, y0, first: Slopes):
        """Convert a step to Diffrax's form; `first` are its first stage derivatives."""
        kept = self.tableau.ends_in_last_stage
        last = (
            _select(done.converged, _first_and_last(done)[1], first) if kept else None
        )
        error = jax.tree.map(
            lambda e: jnp.where(done.converged, e, jnp.inf), done.error
        )
        y1 = jax.tree.map(lambda a: jnp.where(done.converged, a, jnp.nan), done.y)
        results: Any = diffrax.RESULTS
        bad = results.nonlinear_divergence
        result = results.where(done.converged, results.successful, bad)
        dense = _dense(done, y0, hermite=kept)
        return y1, error, dense, SolverState(last, done.factor), result

    def starts_anew(self, terms: Any) -> bool:
        """Whether what a step leaves to the next is no more than its slopes."""
        return isinstance(terms, AbstractIMEXTerm) and (
            self.split or terms.fully_implicit
        )

    def func(self, terms: Any, t0: Any, y0: PyTree, args: Any) -> PyTree:
        return terms.vf(t0, y0, args)

    def _leap(self, terms, t0, t1, y0, args, first: "First") -> IMEXStep | None:
        """The step, where the dynamics know how their stages are solved."""
        t0, t1 = jnp.asarray(t0), jnp.asarray(t1)
        unwrapped = AbstractIMEXTerm.unwrap(terms, t0, t1)
        if unwrapped is None or not (self.split or unwrapped[0].fully_implicit):
            return None
        split, sign = unwrapped
        t, length = sign * t0, sign * (t1 - t0)

        def slopes() -> Slopes:
            implicit = split.implicit(t, y0, args)
            return implicit, None if split.fully_implicit else split.explicit(
                t, y0, args
            )

        return IMEXStep(split, t, length, y0, *first(slopes), args)

    def _problem(self, terms, t0, t1, y0, args, first: "First") -> StageProblem:
        if self.split and not isinstance(terms, diffrax.MultiTerm):
            raise ValueError(
                f"{type(self).__name__} needs MultiTerm dynamics, an explicit and an "
                "implicit term, or simulations.IMEXTerm; got one term. Take "
                "integrators.Kvaerno5() where all of it is stiff"
            )
        t0, t1 = jnp.asarray(t0), jnp.asarray(t1)
        field = split_vector_field(terms, t0, y0, args, split=self.split)

        def slopes() -> Slopes:
            implicit = field.implicit(field.consts[0], t0, y0)
            if field.explicit is None:
                return implicit, None
            return implicit, field.explicit(field.consts[1], t0, y0)

        length = step_length(terms, t0, t1)
        return StageProblem(field, t0, t1 - t0, length, y0, *first(slopes))


#: Slopes at the start of a step, from the function that evaluates them.
First = Callable[[Callable[[], Slopes]], Slopes]


def _evaluate(slopes: Callable[[], Slopes]) -> Slopes:
    return slopes()


def _first_stage(last: Slopes | None, jumped, slopes: Callable[[], Slopes]) -> Slopes:
    """Those that the last step ended with, unless a discontinuity came between."""
    if last is None or jumped is True:
        return slopes()
    if jumped is False:
        return last
    return jax.lax.cond(jumped, slopes, lambda: last)


def _select(converged, a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(lambda x, y: jnp.where(converged, x, y), a, b)


def _first_and_last(done: CompletedStep) -> tuple[Slopes, Slopes]:
    """The slopes of the first stage and of the last."""
    explicit = done.explicit or [None]
    return (done.slopes[0], explicit[0]), (done.slopes[-1], explicit[-1])


def _dense(done: CompletedStep, y0: PyTree, *, hermite: bool) -> dict[str, Any]:
    """Data of Diffrax's interpolants: stage derivatives times the length."""

    def times(slope):
        nothing = jax.tree.map(jnp.zeros_like, slope)
        return add_scaled(nothing, done.length, slope)

    ends = {"y0": y0, "y1": done.y}
    if hermite:
        first, last = (
            a if b is None else jax.tree.map(jnp.add, a, b)
            for a, b in _first_and_last(done)
        )
        return ends | {"k0": times(first), "k1": times(last)}
    implicit, explicit = (
        jax.tree.map(lambda *k: jnp.stack(k), *map(times, slopes)) if slopes else None
        for slopes in (done.slopes, done.explicit)
    )
    if explicit is None:
        explicit = jax.tree.map(jnp.zeros_like, implicit)
    return ends | {"k": (explicit, implicit)}


def esdirk_step(
    tableau: Tableau,
    linear_solver: AbstractLinearSolver,
    tolerances: Tolerances,
    problem: StageProblem,
    kept: JacobianFactor,
) -> CompletedStep:
    """The step, differentiable in everything that `problem` holds."""
    held = _stop_gradient((linear_solver, tolerances, problem, kept))
    solutions = solve_stages(tableau, *held)
    problem, solutions = _failed_as_zero_length(problem, solutions)
    slopes, explicit = _differentiable_stages(
        tableau, linear_solver, problem, solutions
    )
    return complete_step(tableau, problem, slopes, explicit, solutions)


def complete_step(
    tableau: Tableau, start: Any, slopes, explicit, solutions: Any
) -> CompletedStep:
    """The end of a step from the slopes of all stages.

    `start` has its `y` and `length`, `solutions` a `factor` and whether they converged.
    """
    change = linear_combination(tableau.weights, slopes)
    if explicit:
        assert tableau.explicit_weights is not None
        others = linear_combination(tableau.explicit_weights, explicit)
        change = jax.tree.map(jnp.add, change, others)
    return CompletedStep(
        add_scaled(start.y, start.length, change),
        _error(tableau, start.length, slopes, explicit),
        slopes,
        explicit,
        solutions.factor,
        solutions.converged,
        start.length,
    )


def _error(tableau: Tableau, length: Array, slopes, explicit) -> PyTree[Array] | None:
    if tableau.errors is None:
        return None
    error = linear_combination(tableau.errors, slopes)
    if explicit:
        error = jax.tree.map(
            jnp.add, error, linear_combination(tableau.errors, explicit)
        )
    return add_scaled(jax.tree.map(jnp.zeros_like, error), length, error)


def _stop_gradient(tree: PyTree) -> PyTree:
    """Stop gradients: nothing of the search's iterations is differentiated."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def _failed_as_zero_length(
    problem: StageProblem, solutions: StageSolutions
) -> tuple[StageProblem, StageSolutions]:
    """A failed step as one of no length.

    What Newton's method left behind may be anything, and its derivative NaN, which a
    step that is rejected would hand on: zero times NaN is NaN.
    """
    converged = solutions.converged
    span, length = (jnp.where(converged, a, 0) for a in (problem.span, problem.length))
    # The first slope stands in for what failed, and is differentiated as itself.
    slopes = jax.tree.map(
        lambda k, first: jnp.where(converged, k, jax.lax.stop_gradient(first)),
        solutions.slopes,
        problem.slope,
    )
    return problem._replace(span=span, length=length), solutions._replace(slopes=slopes)


def _differentiable_stages(
    tableau: Tableau,
    linear_solver: AbstractLinearSolver,
    problem: StageProblem,
    solutions: StageSolutions,
):
    """The slopes that were found, each as the root of its equation."""
    field, slopes, explicit = problem.field, [problem.slope], []
    if field.explicit is not None:
        explicit.append(problem.explicit)
    length = tableau.gamma * problem.length
    for i in range(1, tableau.stages):
        t = problem.t + float(tableau.nodes[i]) * problem.span
        change = linear_combination(tableau.implicit[i], slopes)
        if explicit:
            assert tableau.explicit is not None
            others = linear_combination(tableau.explicit[i], explicit)
            change = jax.tree.map(jnp.add, change, others)
        base = add_scaled(problem.y, problem.length, change)
        theta = field.consts[0], t, base, length
        equation = ImplicitEquation(
            _stage_residual(field.implicit), theta, None, _guess_is_root
        )
        guess = jax.tree.map(lambda k, i=i: k[i], solutions.slopes)
        slope, _ = implicit_solve(equation, guess, ImplicitAdjoint(linear_solver))
        slopes.append(slope)
        if field.explicit is not None:
            z = add_scaled(base, length, slope)
            explicit.append(field.explicit(field.consts[1], t, z))
    return slopes, explicit


def _stage_residual(rate):
    """k − f(t, base + γ h k), which vanishes."""

    def residual(k, theta):
        consts, t, base, length = theta
        now = rate(consts, t, add_scaled(base, length, k))
        return jax.tree.map(jnp.subtract, k, now)

    return residual


def _guess_is_root(how: Any, function, y, theta):
    """The root is the guess."""
    del how, function, theta
    return y, (), None


def imex_step(tableau: Tableau, leap: IMEXStep) -> CompletedStep:
    """The step, differentiable as its solves are."""
    split, y, length, args = leap.split, leap.y, leap.length, leap.args
    slopes = _first(tableau, leap.slope)
    explicit = None
    if leap.explicit is not None:
        explicit = _first(tableau, leap.explicit)

    # A loop, for a solve is much to compile, and so is its derivative.
    def stage(carry, row):
        slopes, explicit = carry
        t = leap.t + row.nodes.astype(length.dtype) * length
        base = add_scaled(y, length, stacked_linear_combination(row.implicit, slopes))
        if explicit is not None:
            base = add_scaled(
                base, length, stacked_linear_combination(row.explicit, explicit)
            )
        guess = stacked_linear_combination(row.predictor, slopes)
        z, slope = _solved_stage(tableau, leap, t, base, guess)
        slopes = with_stage(slopes, row.index, slope)
        if explicit is not None:
            explicit = with_stage(explicit, row.index, split.explicit(t, z, args))
        return (slopes, explicit), None

    (slopes, explicit), _ = jax.lax.scan(stage, (slopes, explicit), rows(tableau))
    slopes, explicit = (_as_lists(tableau, k) for k in (slopes, explicit))
    return complete_step(tableau, leap, slopes, explicit, _Solved([*slopes, *explicit]))


def _first(tableau: Tableau, slope: PyTree[Array]) -> PyTree[Array]:
    """Slopes of all stages, stacked, of which only the first is known."""
    return with_stage(empty_stages(slope, tableau.stages), 0, slope)


def _as_lists(tableau: Tableau, slopes: PyTree[Array]) -> list[PyTree[Array]]:
    if slopes is None:
        return []
    return [jax.tree.map(lambda k, i=i: k[i], slopes) for i in range(tableau.stages)]


class _Solved(NamedTuple):
    """Slopes of a step whose stages are solved, or NaN."""

    slopes: list[PyTree[Array]]
    factor: None = None

    @property
    def converged(self) -> Array:
        return is_finite(self.slopes)


def _solved_stage(
    tableau: Tableau, leap: IMEXStep, t, base: PyTree[Array], slope: PyTree[Array]
):
    """The state of a stage and its implicit slope, which a solve is more exact of."""
    length = tableau.gamma * leap.length
    guess = add_scaled(base, length, slope)
    z = leap.split.solve(t, base, length, guess, leap.args)

    def quotient():
        return jax.tree.map(lambda a, b: (a - b) / length.astype(a.dtype), z, base)

    def rate():
        return leap.split.implicit(t, z, leap.args)

    # An off-grid step of no length has a slope, which its derivative by time is.
    return z, jax.lax.cond(length == 0, rate, quotient)
