"""`Newton`: the root-finder that hands its last factorization on."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, PyTree

from .._sizes import largest, precision
from ._strategies import AbstractLinear, Dense
from ._tolerances import over_tolerance


#: Steps by factors that are not theirs are worth their while if each is this much
#: shorter than the last, and up to so many.
_MUCH, _AGAIN = 0.25, 2

#: Up to so many unknowns new factors cost no more than another value of f.
_FEW = 3


class _State(eqx.Module):
    """The last factorization; `size` is that of the last step over its tolerance."""

    factor: Any
    size: Array
    singular: Bool[Array, ""]


class Newton(optx.AbstractRootFinder):
    r"""Newton's method, by any linear strategy.

    $$y \leftarrow y - A^{-1} f(y), \qquad A = \partial f/\partial y$$

    until a step is within `atol` + `rtol` |y|; that step is taken, and squares what was
    left. Near the root two more steps go by the same factors, which makes the order
    four for one factorization, and the last ones serve the derivative, if that is by
    `StaleLU`.

    **Arguments**

    - `rtol`, `atol`: of the last step; None is the 3/5 power of the precision, 4e-10 in
        float64.
    - `linear`: what solves for the step.
    - `backward`: make A by reverse mode, for residuals that have no forward mode.
    - `norm`: of the step over its tolerances.

    **Good values:** the defaults, where |y| is about one; else tell `atol`.

    **Limits:** converges near the root only; `NewtonKrylov` and `optimistix.Dogleg`
    search further away (mathematics). `backward` needs a strategy that has a
    factorization (mathematics).

    **References:** C. T. Kelley, *Iterative Methods for Linear and Nonlinear Equations*
    (1995), doi:10.1137/1.9781611970944, section 5.4: the method of Shamanskii
    """

    rtol: float | None = None
    atol: float | None = None
    linear: AbstractLinear = Dense()
    backward: bool = eqx.field(static=True, default=False)
    norm: Callable[[PyTree], Array] = largest

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        del options, aux_struct, tags
        shapes = eqx.filter_eval_shape(lambda: self._step(fn, y, args)[1])
        # Of the type that a step has, inside shard_map as well.
        nothing = 0 * largest(y)
        factor = jax.tree.map(
            lambda s: jnp.zeros(s.shape, s.dtype) + nothing.astype(s.dtype), shapes
        )
        return _State(factor, nothing + jnp.inf, nothing != 0)

    def step(self, fn, y, args, options, state, tags):
        del options, tags, state
        (value, aux), factor, solve = self._step(fn, y, args)
        new, size = self._moved(y, solve(value))
        lost = jnp.isfinite(largest(value)) & ~jnp.isfinite(size)
        if jax.tree.leaves(factor) and sum(x.size for x in jax.tree.leaves(y)) > _FEW:
            new, size = self._again(lambda z: solve(fn(z, args)[0]), new, size)
        return new, _State(factor, size, lost), aux

    def terminate(self, fn, y, args, options, state, tags):
        del fn, y, args, options, tags
        results: Any = optx.RESULTS
        result = results.where(state.singular, results.singular, results.successful)
        return state.size <= 1, result

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        del fn, args, options, state, tags, result
        return y, aux, {}

    def _step(self, fn, y, args):
        return linearized(lambda z: fn(z, args), y, self.linear, backward=self.backward)

    def _moved(self, y: PyTree[Array], step: PyTree[Array]):
        """y after a step, and the size of the step over its tolerance."""
        y = jax.tree.map(jnp.subtract, y, step)
        return y, self.norm(over_tolerance(step, y, self.rtol, self.atol, power=0.6))

    def _again(self, step: Callable, y: PyTree[Array], size: Array):
        """More steps by the same factors, as long as each is much shorter.

        Two steps s, s' by the factors of one A leave 2K|s||s'| of the error, as a step
        of the size of their geometric mean would, with K of the curvature of f.
        """
        # As good as factors have to be for the sweeps of `StaleLU`.
        good = precision(y) ** 0.25

        def again(carry):
            y, last, _, mean = carry
            new, size = self._moved(y, step(y))
            rate = size / last
            taken = rate <= _MUCH
            y = jax.tree.map(lambda a, b: jnp.where(taken, a, b), new, y)
            mean = jnp.where(rate <= good, jnp.sqrt(2 * size * last), mean)
            return y, jnp.where(taken, size, last), rate, mean

        def more(carry, _):
            _, _, rate, mean = carry
            wanted = (rate <= _MUCH) & (mean > 1)
            return jax.lax.cond(wanted, again, lambda carry: carry, carry), None

        start = (y, size, 0 * size, size)
        (y, _, _, mean), _ = jax.lax.scan(more, start, None, length=_AGAIN)
        return y, mean


def linearized(function, y, linear: AbstractLinear, *, backward: bool):
    """(f, aux) at y, the factors of A there, and b ↦ A⁻¹ b; `function` has aux."""
    if backward:
        value, pull, aux = jax.vjp(function, y, has_aux=True)
        factor = linear.prepared(lambda w: pull(w)[0], y, transposed=True)
        operator = _no_products
    else:
        value, operator, aux = jax.linearize(function, y, has_aux=True)
        factor = linear.prepared(operator, y)
    return (value, aux), factor, lambda b: linear.solved(factor, operator, b)[0]


def _no_products(v):
    raise ValueError(
        "linear must factor for Newton's steps in reverse mode, which has no products "
        "with the Jacobian; use Newton(linear=Dense(), backward=True)"
    )
