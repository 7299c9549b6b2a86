"""`AbstractStiffSolver`: Runge–Kutta steps with implicit stages, one at a time."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...implicit import AbstractLinear, Dense
from ...simulations import split_of
from ._chord import Tolerances
from ._combine import shifted
from ._direct import Leap, directly_stepped
from ._field import field_of, length_of
from ._search import Factor, Problem, nothing_prepared
from ._step import Step, stepped
from ._tableau import Tableau


class Memory(eqx.Module):
    """What a step leaves to the next: its last slope and what solved its stages.

    `slope` is None where the next step does not begin where the last stage ended.
    """

    slope: PyTree
    factor: Factor | None


class AbstractStiffSolver(diffrax.AbstractAdaptiveSolver):
    r"""Stages $k_i = f\bigl(t_i,\; y + h \sum_{j<i} a_{ij} k_j + \gamma h\,k_i\bigr)$.

    Each is an equation for its own slope, solved by Newton's method with one factor of
    $1 - \gamma h\,\partial f/\partial y$ for all of them. The factor is kept from step
    to step for as long as Newton's method gains a digit an iteration by it and $h$
    changes by less than a fifth. What is differentiated is the equations and not how
    they were solved, so derivatives are exact in every mode and nesting, under every
    adjoint, whatever the factor was.

    Dynamics that know how to solve for themselves, a `simulations.Split`, are asked to,
    and no Newton's method is run.

    **Arguments**

    - `linear`: what is known of $\partial f/\partial y$, once for the stages, their
        tangents and adjoints: `implicit.Dense()`, `Tridiagonal()`, `Banded(...)`,
        `BlockTridiagonal()`, or `Krylov(preconditioner=...)`, which makes no matrix.
    - `rtol`, `atol`: error that Newton's method may leave in the state of a stage. None
        is 2e-12 of an entry and 5e-14 of the largest one in float64, and the same
        powers of the precision in float32.
    - `iterations`: of Newton's method in a stage, before the step counts as failed.

    A failed step is rejected and made shorter by a controller; at fixed steps the run
    ends in NaN and a `RESULTS`.

    **Good values:** the defaults. `rtol` and `atol` belong a hundred times below the
    controller's; entries that matter at 1e-12 of the largest need their own `atol`.

    **Limits:** the factor is that of the start of a step, so a long one over a strong
    nonlinearity fails where a new factor for every iteration would not (convenience).
    `linear` is not told of $\gamma h$, and neither is a preconditioner
    (convenience). One that presumes another structure than there is makes steps slow or
    fail, and derivatives NaN (convenience: stages are iterated, not checked).
    Derivatives factor the matrix of every stage (convenience).
    """

    linear: AbstractLinear = eqx.field(default=Dense(), kw_only=True)
    rtol: float | None = eqx.field(default=None, kw_only=True)
    atol: float | None = eqx.field(default=None, kw_only=True)
    iterations: int = eqx.field(static=True, default=50, kw_only=True)

    #: The coefficients.
    tableau: eqx.AbstractClassVar[Tableau]

    def __check_init__(self):
        if self.iterations < 2:
            raise ValueError(f"iterations must be 2 or more, got {self.iterations}")

    @property
    def split(self) -> bool:
        """Whether it steps an explicit and an implicit part each in its way."""
        return self.tableau.explicit is not None

    def init(self, terms, t0, t1, y0, args):
        direct = self._leap(terms, t0, t1, y0, args)
        if direct is not None:
            return Memory(None if self.split else direct.slope, None)
        problem = self._problem(terms, t0, t1, y0, args)
        factor = nothing_prepared(self.linear.opened(y0), problem)
        return Memory(None if self.split else problem.slope, factor)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        slope = None if made_jump is True else solver_state.slope
        direct = self._leap(terms, t0, t1, y0, args, slope)
        if direct is not None:
            direct = direct if slope is None else _leap_after_jump(made_jump, direct)
            done = directly_stepped(self.tableau, direct)
            return self._ended(done, y0, direct.slope)
        linear, factor = self.linear.opened(y0), solver_state.factor
        problem = self._problem(terms, t0, t1, y0, args, slope)
        if made_jump is not True and made_jump is not False:
            problem, factor = _after_jump(made_jump, problem, factor)
        tolerances = Tolerances(self.rtol, self.atol, self.iterations)
        done = stepped(self.tableau, linear, tolerances, problem, factor)
        return self._ended(done, y0, problem.slope)

    def _ended(self, done: Step, y0, first: PyTree[Array]):
        """What Diffrax asks of a step that began with the slope `first`."""
        last = None if self.split else _where(done.good, done.slopes[-1], first)
        error = jax.tree.map(lambda e: jnp.where(done.good, e, jnp.inf), done.error)
        y1 = jax.tree.map(lambda a: jnp.where(done.good, a, jnp.nan), done.y)
        results: Any = diffrax.RESULTS
        bad = results.nonlinear_divergence
        result = results.where(done.good, results.successful, bad)
        dense = _dense(done, y0, split=self.split)
        return y1, error, dense, Memory(last, done.factor), result

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def _leap(self, terms, t0, t1, y0, args, slope=None) -> Leap | None:
        """The step, where the dynamics know how their stages are solved."""
        t0, t1 = jnp.asarray(t0), jnp.asarray(t1)
        found = split_of(terms, t0, t1)
        if found is None or not (self.split or found[0].whole):
            return None
        split, sign = found
        if slope is None:
            slope = split.implicit(sign * t0, y0, args)
        return Leap(split, sign * t0, sign * (t1 - t0), y0, slope, args)

    def _problem(self, terms, t0, t1, y0, args, slope=None) -> Problem:
        if self.split and not isinstance(terms, diffrax.MultiTerm):
            raise ValueError(
                f"{type(self).__name__} needs MultiTerm dynamics, an explicit and an "
                "implicit term, or simulations.Split; got one term. Take "
                "integrators.Kvaerno5() where all of it is stiff"
            )
        t0, t1 = jnp.asarray(t0), jnp.asarray(t1)
        field = field_of(terms, t0, y0, args, split=self.split)
        explicit = None
        if slope is None:
            slope = field.implicit(field.consts[0], t0, y0)
        if field.explicit is not None:
            explicit = field.explicit(field.consts[1], t0, y0)
        length = length_of(terms, t0, t1)
        return Problem(field, t0, t1 - t0, length, y0, slope, explicit)


def _after_jump(jumped, problem: Problem, factor: Factor) -> tuple[Problem, Factor]:
    """Forgets what was known before a discontinuity, if there was one."""
    field = problem.field
    slope = jax.lax.cond(
        jumped,
        lambda: field.implicit(field.consts[0], problem.t, problem.y),
        lambda: problem.slope,
    )
    rate = jnp.where(jumped, jnp.inf, factor.rate)
    return problem._replace(slope=slope), Factor(factor.prepared, factor.length, rate)


def _leap_after_jump(jumped, leap: Leap) -> Leap:
    if jumped is True or jumped is False:
        return leap
    slope = jax.lax.cond(
        jumped,
        lambda: leap.split.implicit(leap.t, leap.y, leap.args),
        lambda: leap.slope,
    )
    return leap._replace(slope=slope)


def _where(good, a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(lambda x, y: jnp.where(good, x, y), a, b)


def _dense(done: Step, y0: PyTree, *, split: bool) -> dict[str, Any]:
    """What the interpolations of Diffrax ask for: slopes times the length."""

    def times(slope):
        nothing = jax.tree.map(jnp.zeros_like, slope)
        return shifted(nothing, done.length, slope)

    ends = {"y0": y0, "y1": done.y}
    if not split:
        return ends | {"k0": times(done.slopes[0]), "k1": times(done.slopes[-1])}
    implicit, explicit = (
        jax.tree.map(lambda *k: jnp.stack(k), *map(times, slopes)) if slopes else None
        for slopes in (done.slopes, done.explicit)
    )
    if explicit is None:
        explicit = jax.tree.map(jnp.zeros_like, implicit)
    return ends | {"k": (explicit, implicit)}
