"""`Newton`: the root-finder that hands its last factorization on."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool

from .. import _tuning
from .._linalg import machine_epsilon, max_norm
from .._types import PyTree
from ._iteration import is_below_rounding, relative_to, step_over_tolerance, test_where
from ._layer_arguments import check_tolerances
from ._linear_solvers import AbstractLinearSolver, Dense


#: Steps by older factors are worth their while if each is this much shorter than the
#: last, and up to so many.
_SHORTENING, _MORE_STEPS = 0.25, 2

#: A step is halved up to so many times.
_HALVINGS = 30

#: f has to fall by this share of what the derivative promises.
_ENOUGH = 1e-4

#: A step so many times the last one is no step nearer, whatever it is beside y.
_LONGER = 10

#: By how much steps to a multiple root at zero shorten at least, to one of order ten.
#: To a root at infinity, as of exp(-y), they do not.
_SHORTER = 0.9


class _State(eqx.Module):
    """The last factorization and step, and where the search stands.

    `size` is that of the last step over its tolerance, `first` that of f at the guess,
    leaf by leaf. The last step began at `origin`, where f had the size `before`, and
    `fraction` of it was taken; once one had to be halved, |f| is `watched`.
    """

    factor: Any
    moved: PyTree[Array]
    size: Array
    first: list[Array]
    origin: PyTree[Array]
    before: list[Array]
    fraction: Array
    watched: Bool[Array, ""]
    near: Bool[Array, ""]
    singular: Bool[Array, ""]


class Newton(optx.AbstractRootFinder[Any, Any, Any, _State]):
    r"""Newton's method, by any linear solver.

    $$y \leftarrow y - A^{-1} f(y), \qquad A = \partial f/\partial y$$

    until a step is within `rtol` |y|, entry by entry; that step is taken, and squares
    what was left. Near the root two more steps go by the same factors, which makes the
    order four for one factorization, and the last ones serve the derivative, if that is
    by `LaggedLU`.

    ```python
    def balance(y, heating):  # a body that is heated and radiates
        return heating + 0.1 * y - y**4

    solver = implicit.Newton(rtol=1e-12)
    solution = implicit.root_solution(balance, 1.0, 1.2, solver=solver)
    solution.value, solution.iterations
    ```

    A step after which steps grow and |f| has not fallen, or is not a number, is halved
    until it does, up to 30 times, and so is every one from then on. That costs nothing
    where whole steps are good: |f| is looked at where the next one begins.

    No scale of y is presumed. A root may be zero to rounding, where no step is small
    beside it: the search ends as well where steps no longer get shorter, f is linear
    over 1/`rtol` times the last one, and rounding hides what a small part of it
    changes; and where |f| is below the fifth power of the precision of what it was at
    the guess while steps get shorter, as at a multiple root at zero.

    **Arguments**

    - `rtol`: of the last step; None is the 3/5 power of the precision, 4e-10 in
        float64.
    - `atol`: the search ends where a step is within `atol` + `rtol` |y|, and nowhere
        else. None presumes nothing.
    - `linear_solver`: what solves for the step.
    - `backward`: make A by reverse mode, for residuals that have no forward mode.
    - `norm`: of the step over its tolerances.

    **Good values:** the defaults, whatever the units of y are.

    **Limits:** stops at minima of |f| that are no roots (mathematics); another guess or
    `optimistix.Dogleg` may find one. Where f bends over less than `rtol` |y|, as with a
    date in days since long ago, the first step ends it: count from nearby, or give a
    smaller `rtol` (convenience). `backward` needs a linear solver that
    has a factorization (mathematics).

    **References:** C. T. Kelley, *Iterative Methods for Linear and Nonlinear Equations*
    (1995), doi:10.1137/1.9781611970944, section 5.4: the method of Shamanskii
    """

    rtol: float | None = None
    atol: float | None = None
    linear_solver: AbstractLinearSolver = Dense()
    backward: bool = eqx.field(static=True, default=False)
    norm: Callable[[PyTree], Array] = max_norm

    def __check_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        shapes = eqx.filter_eval_shape(lambda: self._step(fn, y, args)[1])
        # These have the types of a step, inside shard_map as well.
        nothing = 0 * max_norm(y)
        factor = jax.tree.map(
            lambda s: jnp.zeros(s.shape, s.dtype) + nothing.astype(s.dtype), shapes
        )
        moved = jax.tree.map(lambda a: 0 * a, y)
        far, no = nothing + jnp.inf, nothing != 0
        first = [far.astype(a.dtype) for a in jax.tree.leaves(y)]
        whole = nothing + 1
        return _State(factor, moved, far, first, y, first, whole, no, no, no)

    def step(self, fn, y, args, options, state, tags):
        (value, aux), factor, solve = self._step(fn, y, args)
        step = solve(value)
        new, size, rough = self._moved(y, step, state.moved)
        singular = jnp.isfinite(max_norm(value)) & ~jnp.isfinite(max_norm(step))
        sizes = [max_norm(f) for f in jax.tree.leaves(value)]
        first = [
            jnp.where(jnp.isinf(old), new, old)
            for new, old in zip(sizes, state.first, strict=True)
        ]
        near = self._near(fn, y, args, value, step, size, sizes, state)
        longer = max_norm(step) > _LONGER * max_norm(state.moved)
        # A step that is NaN has grown.
        grew = (~(size < state.size) | longer) & ~(size <= 1)
        unknowns = sum(x.size for x in jax.tree.leaves(y))
        if jax.tree.leaves(factor) and unknowns > _tuning.UNKNOWNS_FACTORED_AGAIN:
            new, size, step = self._more_steps(
                lambda z: solve(fn(z, args)[0]), new, step, size, rough
            )
        search = (y, new, step, size, sizes)
        search, fraction, watched = _keep_if_better(search, near, grew, state)
        origin, new, step, size, before = search
        near, singular = near & (fraction == 1), singular & (fraction == 1)
        search = (origin, before, fraction, watched, near, singular)
        return new, _State(factor, step, size, first, *search), aux

    def terminate(self, fn, y, args, options, state, tags):
        results: Any = optx.RESULTS
        result = results.where(state.singular, results.singular, results.successful)
        return (state.size <= 1) | state.near, result

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        return y, aux, {}

    def _step(self, fn, y, args):
        return linearized(
            lambda z: fn(z, args), y, self.linear_solver, backward=self.backward
        )

    def _moved(self, y: PyTree[Array], step: PyTree[Array], before, *, same=False):
        """y after a step, and the size of the step by each entry and by all.

        An entry far below the others need not be known to its own digits if the step
        before was `before`, and far longer: the error left is far below this step. For
        two steps by the `same` factors, their mean counts.
        """
        y = jax.tree.map(jnp.subtract, y, step)
        if self.atol is not None:
            size = self.norm(
                step_over_tolerance(step, y, self.rtol, self.atol, power=0.6)
            )
            return y, size, size
        rtol, fast = self._relative(y), machine_epsilon(y) ** 0.5
        rough = jax.tree.map(lambda a: rtol * jnp.max(jnp.abs(a), initial=0) + 0 * a, y)

        def over_tolerance(s, last, a, much):
            shorter = relative_to(s, jnp.minimum(much, fast * jnp.abs(last)))
            mean = jnp.sqrt(2 * jnp.abs(s)) * jnp.sqrt(jnp.abs(last)) if same else s
            by_itself = relative_to(mean, rtol * jnp.abs(a))
            return jnp.minimum(jnp.abs(by_itself), jnp.abs(shorter))

        each = jax.tree.map(over_tolerance, step, before, y, rough)
        return y, self.norm(each), self.norm(relative_to(step, rough))

    def _relative(self, y: PyTree[Array]):
        return machine_epsilon(y) ** 0.6 if self.rtol is None else self.rtol

    def _near(self, fn, y, args, value, step, size, sizes, state):
        """Whether f vanishes where no step is small beside y."""
        if self.atol is not None:
            return state.near
        least = machine_epsilon(y) ** 5
        gone = jnp.stack(
            [new <= least * old for new, old in zip(sizes, state.first, strict=True)]
        )
        # The first step cannot be compared with one before it.
        is_later = jnp.isfinite(state.first[0])
        shorter = max_norm(step) <= _SHORTER * max_norm(state.moved)
        stalled = is_later & (size > 1) & (size >= state.size)

        def rounding():
            back, fall = (jax.tree.map(jnp.negative, a) for a in (step, value))
            reach = 1 / self._relative(y)
            return is_below_rounding(
                lambda z: fn(z, args)[0], y, value, back, fall, reach
            )

        return test_where(stalled, rounding) | (is_later & shorter & jnp.all(gone))

    def _more_steps(
        self, step: Callable, y: PyTree[Array], last: PyTree[Array], size, rough
    ):
        """More steps by the same factors, as long as each is much shorter.

        Two steps s, s' by the factors of one A leave 2K|s||s'| of the error, as a step
        of the size of their geometric mean would, with K of the curvature of f.
        """
        # As good as factors have to be for the sweeps of `LaggedLU`.
        good_rate = machine_epsilon(y) ** 0.25

        def take(carry):
            y, last, size, rough, _ = carry
            move = step(y)
            new, entrywise, short = self._moved(y, move, last, same=True)
            rate = short / rough
            is_better = rate <= _SHORTENING
            y, last = jax.tree.map(
                lambda a, b: jnp.where(is_better, a, b), (new, move), (y, last)
            )
            mean = jnp.maximum(entrywise, jnp.sqrt(2 * short * rough))
            size = jnp.where(rate <= good_rate, mean, size)
            return y, last, size, jnp.where(is_better, short, rough), rate

        def take_if_wanted(carry, _):
            _, _, size, _, rate = carry
            wanted = (rate <= _SHORTENING) & (size > 1)
            return jax.lax.cond(wanted, take, lambda carry: carry, carry), None

        start = (y, last, size, rough, 0 * size)
        (y, last, size, _, _), _ = jax.lax.scan(
            take_if_wanted, start, None, length=_MORE_STEPS
        )
        return y, size, last


def _keep_if_better(search, near, grew, state: _State):
    """The `search` after a step, or after half of the last one; the fraction of it
    that was taken, and whether |f| is watched.

    Half of the last step is taken where |f| has not fallen, and steps grow or |f| is
    watched. Where no part of it is better, the search goes on as it would without.
    """
    y, _, _, size, sizes = search
    finite = jnp.all(jnp.isfinite(jnp.stack(sizes)))
    enough = 1 - _ENOUGH * state.fraction
    fell = jnp.stack(
        [new < enough * old for new, old in zip(sizes, state.before, strict=True)]
    )
    unmet = state.watched & ~(size <= 1)
    worse = ~finite | ((grew | unmet) & ~jnp.any(fell))
    is_begun = jnp.all(jnp.isfinite(jnp.stack(state.before)))
    tried = state.fraction <= 0.5**_HALVINGS
    back = is_begun & worse & ~near & ~tried
    half = jax.tree.map(lambda a, b: b + (a - b) / 2, y, state.origin)
    moved = jax.tree.map(lambda a: a / 2, state.moved)
    far = jnp.full_like(size, jnp.inf)
    instead = (state.origin, half, moved, far, state.before)
    search = jax.tree.map(lambda a, b: jnp.where(back, a, b), instead, search)
    fraction = jnp.where(back, state.fraction / 2, 0 * state.fraction + 1)
    return search, fraction, (state.watched | back) & ~(is_begun & worse & tried)


def linearized(function, y, linear_solver: AbstractLinearSolver, *, backward: bool):
    """(f, aux) at y, the factors of A there, and b ↦ A⁻¹ b; `function` has aux."""
    if backward:
        value, pull, aux = jax.vjp(function, y, has_aux=True)
        factor = linear_solver.prepare(lambda w: pull(w)[0], y, transposed=True)
        operator = _no_products
    else:
        value, operator, aux = jax.linearize(function, y, has_aux=True)
        factor = linear_solver.prepare(operator, y)
    return (value, aux), factor, lambda b: linear_solver.solve(factor, operator, b)[0]


def _no_products(v):
    raise ValueError(
        "linear_solver must factor for Newton's steps in reverse mode, which has no "
        "products with the Jacobian; use Newton(linear_solver=Dense(), backward=True)"
    )
