"""`Newton`: the root-finder that hands its last factorization on."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, PyTree

from .._sizes import largest
from ._strategies import AbstractLinear, Dense
from ._tolerances import over_tolerance


class _State(eqx.Module):
    """The last factorization; `size` is that of the last step over its tolerance."""

    factor: Any
    size: Array
    singular: Bool[Array, ""]


class Newton(optx.AbstractRootFinder):
    r"""Newton's method, by any linear strategy.

    $$y \leftarrow y - A^{-1} f(y), \qquad A = \partial f/\partial y$$

    until a step is within `atol` + `rtol` |y|; that step is taken, and squares what was
    left. Its factors serve the derivative, if that is by `StaleLU`.

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
    """

    rtol: float | None = None
    atol: float | None = None
    linear: AbstractLinear = Dense()
    backward: bool = eqx.field(static=True, default=False)
    norm: Callable[[PyTree], Array] = optx.max_norm

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
        step, factor, (value, aux) = self._step(fn, y, args)
        new = jax.tree.map(jnp.subtract, y, step)
        size, finite = self._size(step, new), jnp.isfinite(largest(value))
        return new, _State(factor, size, finite & ~jnp.isfinite(size)), aux

    def terminate(self, fn, y, args, options, state, tags):
        del fn, y, args, options, tags
        results: Any = optx.RESULTS
        result = results.where(state.singular, results.singular, results.successful)
        return state.size <= 1, result

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        del fn, args, options, state, tags, result
        return y, aux, {}

    def _step(self, fn, y, args):
        found, factor, step = newton_step(
            lambda z: fn(z, args), y, self.linear, backward=self.backward
        )
        return step, factor, found

    def _size(self, step: PyTree[Array], y: PyTree[Array]) -> Array:
        return self.norm(over_tolerance(step, y, self.rtol, self.atol, power=0.6))


def newton_step(function, y, linear: AbstractLinear, *, backward: bool):
    """(f, aux) at y, the factors of A there, and A⁻¹ f; `function` returns (f, aux)."""
    if backward:
        value, pull, aux = jax.vjp(function, y, has_aux=True)
        factor = linear.prepared(lambda w: pull(w)[0], y, transposed=True)
        return (value, aux), factor, linear.solved(factor, _no_products, value)[0]
    value, operator, aux = jax.linearize(function, y, has_aux=True)
    factor = linear.prepared(operator, y)
    return (value, aux), factor, linear.solved(factor, operator, value)[0]


def _no_products(v):
    raise ValueError(
        "linear must factor for Newton's steps in reverse mode, which has no products "
        "with the Jacobian; use Newton(linear=Dense(), backward=True)"
    )
