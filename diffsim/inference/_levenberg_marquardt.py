"""`LevenbergMarquardt`: least squares for parameters of any scale, within bounds."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from .._linalg import machine_epsilon, matmul
from .._results import RESULTS
from .._types import PyTree
from ._information_factor import triangular_root, value_and_jacobian


# Below a tenth of an error bar a fit that rounding stops is finished, not stuck.
NEAR_ENOUGH = 0.1


class Objective(eqx.Module):
    """Objective of a fit, where it is not half the sum of the squared rows.

    A residual function that returns it as its auxiliary output has its steps judged by
    `value`; its rows e and their derivative A then stand for the gradient Aᵀe and the
    curvature AᵀA of `value`, its expected one (Fisher scoring) or a safer one.

    **Fields:** `value`; `sigma`, the standard deviation of a row, 1 if rows are
    whitened by a known noise and 0 if it has to be judged from the rows; `extra`, what
    else should be known of the best point.
    """

    value: Float[Array, ""]
    sigma: Float[Array, ""]
    extra: PyTree[Any] = None


class LevenbergMarquardtState(eqx.Module):
    """Where a fit stands; `root` is the triangle of [scaled Jacobian, rows]."""

    root: Float[Array, "row row"]
    value: Float[Array, ""]
    scale: Float[Array, " parameter"]
    held: Bool[Array, " parameter"]
    newton: Float[Array, ""]
    radius: Float[Array, ""]
    damping: Float[Array, ""]
    stale: Bool[Array, ""]
    last: Bool[Array, ""]
    done: Bool[Array, ""]
    result: RESULTS
    jacobians: Int[Array, ""]
    rejected: Int[Array, ""]
    non_finite: Int[Array, ""]
    aux: PyTree[Any]


class Linear(eqx.Module):
    """Rows as a linear function: `root` is the triangle of [Jacobian/scale, rows].

    `gradient` is Jacobianᵀ rows/scale: in the triangle rounding may hide a small one.
    """

    root: Float[Array, "row row"]
    gradient: Float[Array, " parameter"]
    scale: Float[Array, " parameter"]
    value: Float[Array, ""]
    sigma: Float[Array, ""]
    aux: PyTree[Any]


class Step(eqx.Module):
    """A trial step of the scaled parameters and what the linear model expects of it."""

    step: Float[Array, " parameter"]
    length: Float[Array, ""]
    damping: Float[Array, ""]
    predicted: Float[Array, ""]
    slope: Float[Array, ""]

    def shortened(self, root: Array, step: Array) -> "Step":
        """The expectations for `step`, what the bounds have left of this one."""
        n = step.size
        return _expected(root[:n, :n], root[:n, n], step, self.damping)


class Trial(eqx.Module):
    """A point to try, and the step to it."""

    point: Float[Array, " parameter"]
    step: Step


class Evaluation(eqx.Module):
    """Evaluation of a point."""

    value: Float[Array, ""]
    finite: Bool[Array, ""]
    aux: PyTree[Any]


class LevenbergMarquardt(
    optx.AbstractLeastSquaresSolver[Any, Any, Any, LevenbergMarquardtState]
):
    r"""Levenberg-Marquardt in a trust region, scaled by the columns of the Jacobian.

    $$\min_p \tfrac12 |J p + r|^2 \quad\text{for}\quad |D p| \le \Delta$$

    with $D$ the largest norms yet seen of the columns of $J$, so that multiplying a
    parameter by a constant changes nothing. The step comes from a QR factorization of
    $J$ and never from $J^TJ$; $\Delta$ follows the gain ratio as in MINPACK's lmder.
    The Jacobian is made once per accepted step. A trial that is not finite is rejected,
    counted, and the region shrinks.

    It is the solver of `fit`, and one of Optimistix:

    ```python
    def valley(y, args):  # Rosenbrock's
        return jnp.stack([10 * (y[1] - y[0] ** 2), 1 - y[0]])

    solver, start = inference.LevenbergMarquardt(), jnp.array([-1.2, 1.0])
    optimistix.least_squares(valley, solver, start).value  # 1, 1
    bounds = {"upper": jnp.array([0.5, 2.0])}
    optimistix.least_squares(valley, solver, start, options=bounds).value  # 0.5, 0.25
    ```

    **Arguments**

    - `atol`: stop when the Gauss-Newton step still to go is shorter than `atol`
        standard deviations.
    - `rtol`: stop when the trust region is smaller than `rtol` relative to the scaled
        parameters; None is the 3/4 power of the float's precision.
    - `factor`: the first $\Delta$ in units of $|D\,\theta_0|$.
    - `chunk`, `mode`: how many columns of the Jacobian travel together, and whether by
        forward or reverse mode ("auto": forward unless parameters outnumber data).
    - `norm`: what Optimistix asks of every solver; no step depends on it.

    **Good values:** `atol=1e-3` where a Jacobian takes seconds: a thousandth of an
    error bar is enough, and the last iteration or two is saved.

    **Limits:** a local method (mathematics); bounds are held by an active set with
    shortened steps, so the approach to a bound in several parameters at once can be
    slow (convenience).
    """

    atol: float = 1e-7  # pyright: ignore[reportIncompatibleVariableOverride]
    rtol: float | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    factor: float = 100.0
    chunk: int = 128
    mode: str = "auto"
    norm: Callable = optx.two_norm  # pyright: ignore

    references: ClassVar[tuple[str, ...]] = (
        "10.1007/BFb0067700",
        "10.1080/00401706.1981.10486247",
    )

    def init(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: Any,
    ) -> LevenbergMarquardtState:
        """A state without a Jacobian: the first step makes it."""
        del fn, args, options, f_struct, tags
        flat = ravel_pytree(y)[0]
        n, dtype = flat.size, flat.dtype
        zero, no = jnp.zeros((), dtype), jnp.array(False)
        return LevenbergMarquardtState(
            root=jnp.zeros((n + 1, n + 1), dtype),
            value=jnp.array(jnp.inf, dtype),
            scale=jnp.zeros(n, dtype),
            held=jnp.zeros(n, bool),
            newton=jnp.array(jnp.inf, dtype),
            radius=zero,
            damping=zero,
            stale=jnp.array(True),
            last=no,
            done=no,
            result=RESULTS.successful,
            jacobians=jnp.array(0),
            rejected=jnp.array(0),
            non_finite=jnp.array(0),
            aux=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), aux_struct),
        )

    def step(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        state: LevenbergMarquardtState,
        tags: Any,
    ) -> tuple[PyTree, LevenbergMarquardtState, PyTree]:
        """Make a Jacobian if the last step was accepted, then one trial step."""
        del tags
        flat, unravel = ravel_pytree(y)
        sides = (options.get("lower"), -jnp.inf), (options.get("upper"), jnp.inf)
        lower, upper = (
            jnp.full_like(flat, empty) if side is None else ravel_pytree(side)[0]
            for side, empty in sides
        )
        bounds = lower, upper

        def rows(vector: Array):
            out, aux = fn(unravel(vector), args)
            return ravel_pytree(out)[0], aux

        def linearized():
            given = value_and_jacobian(rows, flat, chunk=self.chunk, mode=self.mode)
            linear = self.linear_by(*given, state)
            return self.update_linearization(flat, bounds, linear, state)

        def tried():
            trial = self.proposed(flat, bounds, state)
            e, aux = rows(trial.point)
            return self.accept_or_reject(
                flat, trial, evaluation(e, aux, flat.size), state
            )

        state = jax.lax.cond(state.stale, linearized, lambda: state)
        flat, state = jax.lax.cond(state.done, lambda: (flat, state), tried)
        return unravel(flat), state, state.aux

    def terminate(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        state: LevenbergMarquardtState,
        tags: Any,
    ) -> tuple[Array, optx.RESULTS]:
        """Whether the fit is done, and whether that is for lack of finite numbers."""
        del fn, y, args, options, tags
        bad = state.result == RESULTS.prediction_not_finite
        good = optx.RESULTS.successful
        return state.done, optx.RESULTS.where(bad, optx.RESULTS.nonfinite, good)

    def postprocess(
        self,
        fn: Any,
        y: PyTree,
        aux: PyTree,
        args: Any,
        options: dict[str, Any],
        state: LevenbergMarquardtState,
        tags: Any,
        result: Any,
    ) -> tuple[PyTree, PyTree, dict[str, Any]]:
        """The counts of Jacobians, rejected and non-finite steps, as statistics."""
        del fn, args, options, tags, result
        counts = ("jacobians", "rejected", "non_finite")
        return y, aux, {f"num_{name}": getattr(state, name) for name in counts}

    # A step in four parts, so that the host compiles the two that call the user's
    # function apart from the two that do not and are the same for every fit.

    def linear_by(
        self, e: Array, jacobian: Array, aux: Any, state: LevenbergMarquardtState
    ) -> Linear:
        """The function of rows by its value and Jacobian."""
        scale = jnp.maximum(state.scale, jnp.linalg.norm(jacobian, axis=0))
        scale = jnp.where(scale > 0, scale, 1)
        scaled = jacobian / scale
        rows = jnp.concatenate([scaled, e[:, None]], axis=1)
        # In an exact fit e is 0: a triangle has a derivative by one row more.
        least = jnp.zeros_like(rows[:1]).at[0, -1].set(machine_epsilon(e))
        root = triangular_root(jnp.concatenate([rows, least]))
        value, sigma = _judgment(e, aux, jacobian.shape[1])
        return Linear(root, matmul(scaled.T, e), scale, value, sigma, aux)

    def update_linearization(
        self,
        flat: Array,
        bounds: tuple[Array, Array],
        linear: Linear,
        state: LevenbergMarquardtState,
    ) -> LevenbergMarquardtState:
        """The state that steps from `linear`, or ends there."""
        finite = jnp.isfinite(linear.value) & jnp.all(jnp.isfinite(linear.root))
        # A derivative may be finite where its function is not.
        root = jnp.where(finite, linear.root, jnp.nan)
        # Parameters at a bound that the gradient pushes outward.
        gradient, at_lower, at_upper = (
            linear.gradient,
            flat <= bounds[0],
            flat >= bounds[1],
        )
        held = (at_lower & (gradient > 0)) | (at_upper & (gradient < 0))
        step, newton = newton_step(root, held)
        newton = newton / jnp.where(newton > 0, linear.sigma, 1)
        # No search should stop before a near bound at which its step ends.
        point = _within_bounds(flat, step / linear.scale, bounds)
        sides = [(point == b) & (flat != b) & _is_near(flat, b) for b in bounds]
        lands = jnp.any(sides[0] | sides[1])
        length = jnp.linalg.norm(linear.scale * flat)
        first = self.factor * jnp.where(length > 0, length, 1)
        return _replace(
            state,
            root=root,
            value=linear.value,
            scale=linear.scale,
            held=held,
            newton=newton,
            radius=jnp.where(state.jacobians == 0, first, state.radius),
            stale=jnp.array(False),
            done=((state.last | (newton <= self.atol)) & ~lands) | ~finite,
            result=_result(newton, finite, state.last),
            jacobians=state.jacobians + 1,
            aux=linear.aux,
        )

    def proposed(
        self, flat: Array, bounds: tuple[Array, Array], state: LevenbergMarquardtState
    ) -> Trial:
        """The next point to try."""
        trust = {"radius": state.radius, "damping": state.damping}
        step = trust_region_step(state.root, state.held, **trust)
        point = _within_bounds(flat, step.step / state.scale, bounds)
        return Trial(point, step.shortened(state.root, (point - flat) * state.scale))

    def accept_or_reject(
        self,
        flat: Array,
        trial: Trial,
        evaluated: Evaluation,
        state: LevenbergMarquardtState,
    ) -> tuple[Array, LevenbergMarquardtState]:
        """The point and the state after the trial, accepted or not."""
        step = trial.step
        gain = state.value - jnp.where(evaluated.finite, evaluated.value, jnp.inf)
        ratio = jnp.where(step.predicted > 0, gain / step.predicted, -jnp.inf)
        # Below rounding the model is better than a difference of two sums.
        eps = jnp.finfo(state.value.dtype).eps
        rounding = 8 * eps * jnp.abs(state.value)
        small = jnp.maximum(jnp.abs(gain), step.predicted) <= rounding
        accepted = (ratio >= 1e-4) | (small & (step.predicted > 0))
        trust = {"radius": state.radius, "first": state.jacobians == 1}
        radius, damping = adapt_radius(step, gain, ratio, **trust)
        flat = jnp.where(accepted, trial.point, flat)
        # The radius below which a step no longer changes anything.
        rtol = eps**0.75 if self.rtol is None else self.rtol
        least = jnp.maximum(
            rtol * jnp.linalg.norm(state.scale * flat),
            eps * jnp.sqrt(2 * jnp.abs(state.value)),
        )
        stop = (small & (ratio <= 2)) | (radius <= least)
        new, old = (evaluated.value, evaluated.aux), (state.value, state.aux)
        value, aux = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
        return flat, _replace(
            state,
            radius=radius,
            damping=damping,
            value=value,
            aux=aux,
            stale=accepted,
            last=stop,
            done=stop & ~accepted,
            result=_result(state.newton, True, stop & ~accepted),
            rejected=state.rejected + ~accepted,
            non_finite=state.non_finite + ~evaluated.finite,
        )


def evaluation(rows: Array, aux: Any, size: int) -> Evaluation:
    """Evaluate a trial point with these rows, for `size` parameters."""
    value, _ = _judgment(rows, aux, size)
    return Evaluation(value, jnp.isfinite(value) & jnp.all(jnp.isfinite(rows)), aux)


def _within_bounds(flat: Array, step: Array, bounds: tuple[Array, Array]) -> Array:
    """The point after a step; within rounding of a bound it is that bound."""
    eps = jnp.finfo(flat.dtype).eps
    point = jnp.clip(flat + step, *bounds)
    for bound in bounds:
        away = jnp.abs(flat - bound)
        # Near a bound the step itself is uncertain by the square of what is left.
        rounding = jnp.where(_is_near(flat, bound), eps**0.75, 4 * eps)
        near = rounding * away + 4 * eps * jnp.abs(bound)
        point = jnp.where(jnp.abs(point - bound) < near, bound, point)
    return point


def _is_near(flat: Array, bound: Array) -> Array:
    return jnp.abs(flat - bound) <= jnp.finfo(flat.dtype).eps ** 0.5 * (
        1 + jnp.abs(flat)
    )


def _judgment(e: Array, aux: Any, n: int) -> tuple[Array, Array]:
    """The objective, and the standard deviation that a row has."""
    squares = matmul(e, e)
    spread = jnp.sqrt(squares / max(e.size - n, 1))
    if isinstance(aux, Objective):
        return aux.value, jnp.maximum(aux.sigma, spread)
    return squares / 2, spread


def _result(newton: Array, finite: Any, over: Array) -> RESULTS:
    stuck = over & ~(newton <= NEAR_ENOUGH)
    result = RESULTS.where(stuck, RESULTS.no_progress, RESULTS.successful)
    return RESULTS.where(jnp.asarray(finite), result, RESULTS.prediction_not_finite)


def _replace(state: LevenbergMarquardtState, **fields: Any) -> LevenbergMarquardtState:
    names = list(fields)
    return eqx.tree_at(
        lambda s: [getattr(s, name) for name in names], state, list(fields.values())
    )


def trust_region_step(root: Array, held: Bool[Array, " parameter"], **trust) -> Step:
    r"""Minimizes $\tfrac12|As + q|^2$ over $|s| \le \Delta$ with entries `held` at 0.

    **Arguments:** `root` is the triangle of $[A\;q]$; `trust` has `radius` and the last
    `damping` to start from.

    The damping $\lambda$ of $(A^TA + \lambda)s = -A^Tq$ is found by Newton's method on
    $1/|s(\lambda)|$ to a tenth of the radius, each trial a QR of the stacked
    $[A; \sqrt\lambda]$, as in MINPACK's lmpar (More 1978).
    """
    n = held.size
    a = jnp.where(held, 0, root[:n, :n])
    q = root[:n, n]
    step, damping = _damping(a, q, **trust)
    return _expected(a, q, jnp.where(held, 0, step), damping)


def adapt_radius(
    step: Step, gain: Array, ratio: Array, *, radius: Array, first: Array
) -> tuple[Array, Array]:
    """The next radius and damping; the constants are those of MINPACK's lmder."""
    radius = jnp.where(first, jnp.minimum(radius, step.length), radius)
    shrink = jnp.where(gain >= 0, 0.5, 0.5 * step.slope / (step.slope + gain))
    shrink = jnp.where(jnp.isfinite(gain), jnp.clip(shrink, 0.1, 0.5), 0.1)
    smaller = shrink * jnp.minimum(radius, 10 * step.length)
    good = (ratio >= 0.75) | (step.damping == 0)
    poor = ~(ratio > 0.25)
    return (
        jnp.where(poor, smaller, jnp.where(good, 2 * step.length, radius)),
        step.damping * jnp.where(poor, 1 / shrink, jnp.where(good, 0.5, 1.0)),
    )


def newton_step(root: Array, held: Bool[Array, " parameter"]) -> tuple[Array, Array]:
    """The Gauss-Newton step that is still to go, and its length in error bars."""
    n = held.size
    a = jnp.where(held, 0, root[:n, :n])
    triangle = _stack_damping(a, root[:n, n], _least_damping(a))
    step = -solve_triangular(triangle[:n, :n], triangle[:n, n])
    return step, jnp.linalg.norm(triangle[:n, n])


def _expected(a: Array, q: Array, step: Array, damping: Array) -> Step:
    move = matmul(a, step)
    # Equal to |As|²/2 + λ|s|² for a full step, and right for a shortened one as well.
    predicted = -matmul(move, q + move / 2)
    return Step(step, jnp.linalg.norm(step), damping, predicted, matmul(move, q))


def _least_damping(a: Array) -> Array:
    """Keeps a singular Gauss-Newton step finite; below rounding for any other."""
    return (4 * jnp.finfo(a.dtype).eps) ** 2 + jnp.zeros((), a.dtype)


def _stack_damping(a: Array, q: Array, damping: Array) -> Array:
    below = jnp.sqrt(damping) * jnp.eye(a.shape[1], dtype=a.dtype)
    above = jnp.concatenate([a, q[:, None]], axis=1)
    return triangular_root(jnp.concatenate([above, jnp.pad(below, ((0, 0), (0, 1)))]))


def _solve(a: Array, q: Array, damping: Array) -> tuple[Array, Array, Array]:
    """The damped step, its length, and how fast 1/length changes with the damping."""
    n = a.shape[1]
    triangle = _stack_damping(a, q, damping)
    step = -solve_triangular(triangle[:n, :n], triangle[:n, n])
    length = jnp.linalg.norm(step)
    unit = step / jnp.where(length > 0, length, 1)
    along = solve_triangular(triangle[:n, :n], unit, trans=1)
    return step, length, matmul(along, along)


def _damping(a: Array, q: Array, radius: Array, damping: Array) -> tuple[Array, Array]:
    """The step of the wanted length and its damping, 0 for a Gauss-Newton step."""
    highest = jnp.linalg.norm(matmul(a.T, q)) / radius

    def unfinished(carry):
        _, _, _, done, count = carry
        return ~done & (count < 11)

    def body(carry):
        _, trial, (low, high), _, count = carry
        step, length, rate = _solve(a, q, trial)
        excess = length - radius
        correction = excess / (radius * rate)
        newton = count == 0
        fits = jnp.where(newton, excess, jnp.abs(excess)) <= 0.1 * radius
        low = jnp.where(excess > 0, jnp.maximum(low, trial), low)
        high = jnp.where(excess < 0, jnp.minimum(high, trial), high)
        follow = jnp.maximum(low, trial + correction)
        # After the Gauss-Newton trial: bracket, and go on from the last damping.
        low = jnp.where(newton, jnp.maximum(correction, 0), low)
        again = jnp.clip(damping, low, jnp.maximum(high, low))
        again = jnp.where(again > 0, again, high * radius / length)
        following = jnp.where(newton, again, follow)
        kept = jnp.where(fits, trial, following)
        return step, kept, (low, high), fits, count + 1

    start = jnp.zeros_like(q), _least_damping(a), (jnp.zeros_like(radius), highest)
    step, trial, _, _, count = jax.lax.while_loop(
        unfinished, body, (*start, jnp.array(False), 0)
    )
    return step, jnp.where(count == 1, 0, trial)
