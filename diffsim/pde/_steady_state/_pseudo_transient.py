"""`PseudoTransient`: Newton's method that begins as a march in time."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..._linalg import machine_epsilon, max_norm
from ..._types import PyTree
from ..._validation import as_floating, function_of, positive
from ...implicit import (
    GMRES,
    AbstractInexactNewton,
    AbstractLinearSolver,
    Krylov,
)


#: Share of |f| that a step of the right length leaves by nonlinearity; the next step is
#: longer or shorter in proportion, up to the second number.
_BENT, _LONGER = 0.3, 10.0

#: A step that leaves more than this share of |f| is not taken.
_LOST = 2.0

#: Steps are solved to this share of |f|, later ones better, down to rounding.
_ROUGHLY = 1e-2


#: Growth at the rate ρ is followed by steps of this share of 1/ρ, until so many steps
#: were shortened for it and |f| has not risen: then it does not grow for long.
_FOLLOWED, _DOUBTS = 0.5, 4


class _State(eqx.Module):
    """|f|, the next step and how well it is to be solved, and what is left after it.

    `doubts`: how often growth was expected since |f| rose.
    """

    residual: Float[Array, ""]
    step: Float[Array, ""]
    forcing: Float[Array, ""]
    scale: Float[Array, ""]
    left: Float[Array, ""]
    failed: Bool[Array, ""]
    doubts: Float[Array, ""]


class PseudoTransient(AbstractInexactNewton):
    r"""Pseudo-transient continuation: implicit steps in pseudo-time, towards f(y) = 0:

    $$\Bigl(\frac1\tau - \frac{\partial f}{\partial y}\Bigr)\,s = f(y), \qquad
      y \leftarrow y + s, \qquad
      \tau \leftarrow \tau\,\frac{0.3\,|f(y)|}{|f(y + s) - s/\tau|}$$

    ```python
    law, pond = pde.FisherKPP(0.01, growth_rate=1.0), pde.Grid(50)
    fish = pde.Evolution(law, jnp.full(50, 0.1), pond, pde.Dirichlet(0.0))
    pde.steady_state(fish, solver=pde.PseudoTransient(step=0.1))  # not 0, which repels
    ```

    In it all waves that spread take about as long. So it goes where time would, past
    where Newton's method stalls, and ends as that method, whose step is that of
    infinite τ: s/τ is what f is after the step if it is linear, and near the answer the
    difference vanishes. A step after which this is twice |f| is not taken, nor one that
    is longer than what grows takes to, 1/ρ with ρ = 1/τ − f·s/s·s, and would go back to
    where that came from. No matrix is made.

    **Arguments**

    - `step`: the first τ; the next one is longer by a factor of 10 or less.
    - `rtol`: of what is left after the last step, relative to the largest entry of y
        and of the guess; None is the 3/4 power of the precision, 2e-12 in float64.
    - `linear_solver`: an `implicit.Krylov`; its own tolerances are not used here. None
        is `Krylov(GMRES(60), max_steps=4000)`, which keeps 60 fields in memory.
    - `norm`: of what `rtol` is for.

    **Good values:** 1; 0.1 where that comes to nothing.

    **Limits:** made to find what attracts: for unstable states take
    `implicit.NewtonKrylov` and `attracting=False`, from near them. That nothing
    attracts, as where a flow sheds vortices, takes all steps to be known (mathematics).
    """

    step_size: float | Array
    rtol: float | None
    atol: float
    linear_solver: AbstractLinearSolver
    norm: Callable[[PyTree], Array]
    references: ClassVar[tuple[str, ...]] = ("10.1137/S0036142996304796",)

    def __init__(
        self,
        step: float | Array = 1.0,
        *,
        rtol: float | None = None,
        linear_solver: AbstractLinearSolver | None = None,
        norm: Callable[[PyTree], Array] = max_norm,
    ):
        positive("step", as_floating("step", step))
        if rtol is not None:
            positive("rtol", as_floating("rtol", rtol))
        function_of("norm", norm, ("y",))
        self.step_size = step
        self.rtol = rtol
        self.atol = 0.0
        default = Krylov(GMRES(60), max_steps=4000)
        self.linear_solver = default if linear_solver is None else linear_solver
        self.norm = norm

    def init(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: Any,
    ) -> _State:
        del options, f_struct, aux_struct, tags
        size = self._length(fn(y, args)[0])
        one = 0 * size + 1
        late = one * jnp.inf
        return _State(
            size,
            one * self.step_size,
            one * _ROUGHLY,
            self.norm(y),
            late,
            size < 0,
            0 * size,
        )

    def step(
        self,
        fn: Any,
        y: PyTree,
        args: Any,
        options: dict[str, Any],
        state: _State,
        tags: Any,
    ) -> tuple[PyTree, _State, PyTree]:
        del options, tags
        value, operator, aux = jax.linearize(lambda z: fn(z, args), y, has_aux=True)

        def shifted(v):
            return jax.tree.map(lambda a, b: a / state.step - b, v, operator(v))

        tolerance = state.forcing * state.residual
        move = self._solve_to_tolerance(shifted, value, tolerance)
        moved = jax.tree.map(jnp.add, y, move)
        there = fn(moved, args)[0]
        bent = jax.tree.map(lambda f, s: f - s / state.step, there, move)
        size, lost = self._length(there), self._length(bent) / state.residual
        growth = self._growth_rate(value, move, state)
        # Past 1/ρ a step goes back to where things grow from. False if anything is NaN.
        taken = (lost <= _LOST) & (state.step * growth < 1)
        y = jax.tree.map(lambda a, b: jnp.where(taken, a, b), moved, y)
        return y, self._next(y, move, state, size, lost, growth), aux

    def _growth_rate(self, value, move, state: _State) -> Array:
        """ρ, the rate at which a step grows by A, where it is taken for growth."""
        assert isinstance(self.linear_solver, Krylov)
        inner = self.linear_solver.inner
        length = inner(move, move)
        rate = 1 / state.step - inner(value, move) / jnp.where(length > 0, length, 1)
        # The direction of a step as small as rounding says nothing.
        least = machine_epsilon(move) ** 0.5 * state.scale
        is_reliable = (state.doubts < _DOUBTS) & (self.norm(move) > least)
        return jnp.where(is_reliable, jnp.maximum(rate, 0), 0)

    def _next(self, y, move, state: _State, size, lost, growth) -> _State:
        eps = machine_epsilon(y)
        rtol = eps**0.75 if self.rtol is None else self.rtol
        scale = jnp.maximum(state.scale, self.norm(y))
        passed = state.step * growth >= 1
        taken, rate = (lost <= _LOST) & ~passed, size / state.residual
        # About Newton's step, of which this one is a part.
        whole = self.norm(move) * (1 + 1 / state.step)
        # A small step that cannot make |f| fall has met its rounding.
        met = (rate >= 0.5) & (whole <= eps**0.5 * scale)
        met = met | (state.residual == 0)
        left = jnp.where(taken, whole * rate / (rtol * scale), jnp.inf)
        wanted = jnp.where(jnp.isfinite(lost), _BENT / lost, 1 / _LONGER)
        longer = state.step * jnp.clip(wanted, 1 / _LONGER, _LONGER)
        grows = passed | ((growth > 0) & (rate >= 1))
        followed = _FOLLOWED / jnp.where(growth > 0, growth, 1)
        step = jnp.where(grows, jnp.minimum(longer, followed), longer)
        doubts = jnp.where(taken & (rate >= 1), 0, state.doubts + passed)
        forcing = jnp.clip(rate, eps**0.5, _ROUGHLY)
        return _State(
            jnp.where(taken, size, state.residual),
            jnp.minimum(step, 1 / eps),
            jnp.where(taken, forcing, _ROUGHLY),
            scale,
            jnp.where(met, 0, left),
            step < eps,
            doubts,
        )
