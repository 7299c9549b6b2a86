"""`NewtonKrylov`: Newton's method without a matrix, solved as well as it helps."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float

from .._linalg import machine_epsilon, max_norm
from .._types import PyTree
from .._validation import instance, positive
from ._iteration import is_below_rounding, relative_to, step_over_tolerance, test_where
from ._layer_arguments import check_tolerances
from ._linear_solvers import AbstractLinearSolver, Krylov


#: Of the tolerances, what the last step may leave. Less is work for nothing, and
#: Krylov's method may not get there where they are near the rounding.
_ENOUGH = 0.1


class AbstractInexactNewton(optx.AbstractRootFinder[Any, Any, Any, Any]):
    r"""Root-finder whose steps are solved for by a Krylov method, to $\eta\,|f|$.

    How the steps go is the method's: its `init` and `step` keep a state with `left`,
    what is left after the last step over its tolerances, and `failed`, whether there is
    no next one. It ends where `left` is one or less, or with `nonlinear_divergence`.
    """

    linear_solver: eqx.AbstractVar[AbstractLinearSolver]

    def __check_init__(self) -> None:
        instance("linear_solver", self.linear_solver, Krylov, "implicit.Krylov()")

    def terminate(self, fn, y, args, options, state, tags):
        results: Any = optx.RESULTS
        done = state.left <= 1
        stuck = state.failed & ~done
        return done, results.where(
            stuck, results.nonlinear_divergence, results.successful
        )

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        return y, aux, {}

    def _solve_to_tolerance(self, operator, b: PyTree[Array], tolerance: Array):
        """s with |b − A s| at most `tolerance`, or NaN."""
        assert isinstance(self.linear_solver, Krylov)
        return self.linear_solver.solve_to_tolerance(operator, b, tolerance)[0]

    def _length(self, f: PyTree[Array]) -> Array:
        """|f| by the inner product of the Krylov method."""
        assert isinstance(self.linear_solver, Krylov)
        return jnp.sqrt(self.linear_solver.inner(f, f))


class _State(eqx.Module):
    """|f|, how well the next step is to be solved, and what the last step left.

    `scale` is the largest that each leaf of y, or a step of it, has been.
    """

    scale: PyTree[Array]
    residual: Float[Array, ""]
    forcing: Float[Array, ""]
    left: Float[Array, ""]
    failed: Bool[Array, ""]


class NewtonKrylov(AbstractInexactNewton):
    r"""Inexact Newton: each step by a Krylov method, shortened until |f| falls.

    $$|f + A\,s| \le \eta\,|f|, \qquad
      \eta = 0.9\,\bigl(|f| / |f_\text{before}|\bigr)^2$$

    so that early steps cost little and late ones converge fast, the last to a tenth of
    what the tolerances ask, and then
    $y \leftarrow y + \lambda s$ with $\lambda = 1, \tfrac12, \tfrac14, \ldots$ until
    |f| falls by the fraction $10^{-4} \lambda (1 - \eta)$. It stops when the step,
    times the factor by which |f| fell, is within `atol` + `rtol` |y|. No matrix is
    made.

    ```python
    def bratu(u, strength):  # ∇²u + λ eᵘ = 0 between walls, in 32 × 32 points
        p = jnp.pad(u, 1)
        neighbors = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        return neighbors - 4 * u + strength * jnp.exp(u) / 33**2

    symmetric = implicit.Krylov(implicit.MINRES())
    solver = implicit.NewtonKrylov(linear_solver=symmetric)
    adjoint = implicit.ImplicitAdjoint(symmetric)
    implicit.root(bratu, jnp.zeros((32, 32)), 1.0, solver=solver, adjoint=adjoint)
    ```

    **Arguments**

    - `rtol`: of what is left after the last step; None is the 3/4 power of the
        precision, 2e-12 in float64.
    - `atol`: None presumes no units of y: `rtol` is of the largest entry of each leaf,
        and for a leaf that vanishes of the root of the precision times the largest that
        it has had on the way.
    - `linear_solver`: a `Krylov`; its own tolerances are not used, all else is.
    - `forcing`: $\eta$ of the first step, and the largest of all.
    - `max_halvings`: halvings of one step before it counts as failed.
    - `norm`: of the step over its tolerances.

    **Good values:** the defaults; a preconditioner decides how long it takes.

    **Limits:** stops at a local minimum of |f| (mathematics), with
    `nonlinear_divergence`.
    """

    rtol: float | None = None
    atol: float | None = None
    linear_solver: AbstractLinearSolver = Krylov()
    forcing: float = eqx.field(
        default=0.5, kw_only=True, converter=partial(positive, "forcing")
    )
    max_halvings: int = eqx.field(static=True, default=20, kw_only=True)
    norm: Callable[[PyTree], Array] = eqx.field(default=max_norm, kw_only=True)
    references: ClassVar[tuple[str, ...]] = ("10.1137/0917003",)

    def __check_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        size = self._length(fn(y, args)[0])
        scale = jax.tree.map(_max_abs, y)
        far = 0 * size + jnp.inf
        return _State(scale, size, 0 * size + self.forcing, far, size < 0)

    def step(self, fn, y, args, options, state, tags):
        value, operator, aux = jax.linearize(lambda z: fn(z, args), y, has_aux=True)
        downhill = jax.tree.map(jnp.negative, value)
        tolerance = state.forcing * state.residual
        move = self._solve_to_tolerance(operator, downhill, tolerance)
        start = y
        y, fraction, size = self._shortened(fn, y, args, move, state)
        rate = size / state.residual
        scale = jax.tree.map(
            lambda *sizes: jnp.maximum(sizes[0], jnp.maximum(*sizes[1:])),
            state.scale,
            jax.tree.map(_max_abs, y),
            jax.tree.map(_max_abs, move),
        )
        left = self._over(move, y, scale, 0.75) * jnp.maximum(rate, 1 - fraction)
        # A small step that cannot make |f| fall has met its rounding.
        small = self.norm(_over_scale(move, scale, machine_epsilon(y) ** 0.5)) <= 1
        # It has not fallen where Krylov's answer is NaN.
        fell = size < state.residual

        def rounding():
            reach = machine_epsilon(y) ** -0.5
            change = operator(move)
            return is_below_rounding(
                lambda z: fn(z, args)[0], start, value, move, change, reach
            )

        small |= test_where(~fell & ~small, rounding)
        met = (state.residual == 0) | (~fell & small)
        y = jax.tree.map(lambda a, b: jnp.where(fell | met, a, b), y, start)
        forcing = self._next_forcing(rate, left, state.forcing)
        left = jnp.where(met, 0, left)
        return y, _State(scale, size, forcing, left, ~(fell | met)), aux

    def _over(self, move, y, scale, power: float) -> Array:
        """The size of a step over the tolerances."""
        rtol = machine_epsilon(y) ** power if self.rtol is None else self.rtol
        if self.atol is None:
            # A leaf that vanishes has to come down to far below what it was.
            least = machine_epsilon(y) ** 0.5
            scale = jax.tree.map(
                lambda a, s: jnp.maximum(_max_abs(a), least * s), y, scale
            )
            return self.norm(_over_scale(move, scale, rtol))
        return self.norm(step_over_tolerance(move, y, rtol, self.atol, power=power))

    def _shortened(self, fn, y, args, move, state):
        """y + λ s, λ and |f| there, for the first λ that makes |f| fall enough."""

        def moved(fraction):
            return jax.tree.map(lambda a, s: a + fraction.astype(a.dtype) * s, y, move)

        def wanted(carry):
            fraction, size, n = carry
            enough = (1 - 1e-4 * fraction * (1 - state.forcing)) * state.residual
            # Written so that NaN goes on, to shorter steps.
            return ~(size <= enough) & (n < self.max_halvings)

        def halved(carry):
            fraction, _, n = carry
            fraction = fraction / 2
            return fraction, self._length(fn(moved(fraction), args)[0]), n + 1

        whole = 0 * state.residual + 1
        start = (whole, self._length(fn(moved(whole), args)[0]), jnp.asarray(0))
        fraction, size, _ = jax.lax.while_loop(wanted, halved, start)
        return moved(fraction), fraction, size

    def _next_forcing(self, rate: Array, left: Array, forcing: Array) -> Array:
        """Choice 2 of Eisenstat and Walker, kept from falling faster than it should."""
        chosen = 0.9 * rate**2
        before = 0.9 * forcing**2
        chosen = jnp.where(before > 0.1, jnp.maximum(chosen, before), chosen)
        return jnp.minimum(jnp.maximum(chosen, _ENOUGH / left), self.forcing)


def _max_abs(a: Array) -> Array:
    return jnp.max(jnp.abs(a), initial=0)


def _over_scale(move: PyTree[Array], scale: PyTree[Array], rtol) -> PyTree[Array]:
    wide = jax.tree.map(lambda a, s: jnp.full_like(a, rtol * s), move, scale)
    return relative_to(move, wide)
