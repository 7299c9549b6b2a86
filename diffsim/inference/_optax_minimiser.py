"""`OptaxDescent`: an Optax optimizer as a minimiser that keeps its best point."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int

from .._linalg import max_norm
from .._results import RESULTS


# So many small updates in a row are the end; the first of some optimizers is 0.
_SETTLED = 2

# After this many halvings of the update a trial point is where the last one was.
_MOST_HALVINGS = 30


class DescentState(eqx.Module):
    """Where a descent stands; `value` is the loss at `best`."""

    optimizer: Any
    best: Float[Array, " parameter"]
    value: Float[Array, ""]
    latest: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    halvings: Int[Array, ""]
    settled: Int[Array, ""]
    non_finite: Int[Array, ""]
    done: Bool[Array, ""]
    result: RESULTS


def has_line_search(optimizer: optax.GradientTransformation, z: Array) -> bool:
    """Whether an optimizer measures the loss, or gradients, along its own steps."""
    kinds = (
        optax.ScaleByLBFGSState,
        optax.ScaleByZoomLinesearchState,
        optax.ScaleByBacktrackingLinesearchState,
    )
    nodes = jax.tree.leaves(
        jax.eval_shape(optimizer.init, z), is_leaf=lambda node: isinstance(node, kinds)
    )
    return any(isinstance(node, kinds) for node in nodes)


def _value(fn: Callable, args: Any, y: Array) -> Array:
    """The loss alone."""
    return fn(y, args)[0]


class OptaxDescent(optx.AbstractMinimiser):
    r"""Gradient descent by any Optax chain, in reverse mode, within bounds.

    The loss is evaluated where the gradient is, and the best point seen is what is
    returned: its loss is the loss reported. A point that is not finite is counted and
    left for the best one, from where updates are halved until a point is finite again.
    It stops where two updates in a row change no coordinate by more than `atol`.

    Every point is projected onto the bounds. That ends at the optimum for updates that
    scale the gradient entry by entry; a line search, or a Hessian made of gradients,
    knows nothing of the projection: see `has_line_search`.
    """

    optimizer: optax.GradientTransformation
    stochastic: bool = False
    searches_lines: bool = False
    atol: float = 1e-10  # pyright: ignore[reportIncompatibleVariableOverride]
    rtol: float = 0.0  # pyright: ignore[reportIncompatibleVariableOverride]
    norm: Callable = max_norm  # pyright: ignore

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        """The optimizer's state, and no point seen yet."""
        del fn, args, options, f_struct, aux_struct, tags
        return DescentState(
            optimizer=self.optimizer.init(y),
            best=y,
            value=jnp.array(jnp.inf, y.dtype),
            latest=jnp.array(jnp.inf, y.dtype),
            gradient_norm=jnp.array(jnp.nan, y.dtype),
            halvings=jnp.array(0),
            settled=jnp.array(0),
            non_finite=jnp.array(0),
            done=jnp.array(False),
            result=RESULTS.successful,
        )

    def step(self, fn, y, args, options, state, tags):
        """One gradient and one update."""
        del tags
        (value, aux), gradient = jax.value_and_grad(fn, has_aux=True)(y, args)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        better = finite & (value < state.value)
        # A batch says little of where the loss is least.
        better = finite if self.stochastic else better
        best = jnp.where(better, y, state.best)
        extra: dict[str, Any] = {"value": value, "grad": gradient}
        if self.searches_lines:
            extra["value_fn"] = eqx.Partial(_value, fn, args)
        optimizer = optax.with_extra_args_support(self.optimizer)
        update, optimizer = optimizer.update(gradient, state.optimizer, y, **extra)
        halvings = jnp.where(
            finite, jnp.maximum(state.halvings - 1, 0), state.halvings + 1
        )
        step = jnp.where(finite, jnp.asarray(update) * 0.5**halvings, 0)
        new = jnp.clip(
            jnp.where(finite, y, (y + best) / 2) + step,
            options.get("lower", -jnp.inf),
            options.get("upper", jnp.inf),
        )
        lost = jnp.isinf(state.value) & ~finite | (halvings > _MOST_HALVINGS)
        small = finite & (max_norm(new - y) <= self.atol) & (not self.stochastic)
        settled = jnp.where(small, state.settled + 1, 0)
        bad, good = RESULTS.prediction_not_finite, RESULTS.successful
        state = DescentState(
            optimizer=jax.tree.map(
                lambda a, b: jnp.where(finite, a, b), optimizer, state.optimizer
            ),
            best=best,
            value=jnp.where(better, value, state.value),
            latest=value,
            gradient_norm=jnp.linalg.norm(gradient),
            halvings=halvings,
            settled=settled,
            non_finite=state.non_finite + ~finite,
            done=lost | (settled >= _SETTLED),
            result=RESULTS.where(lost, bad, good),
        )
        return new, state, aux

    def terminate(self, fn, y, args, options, state, tags):
        """Whether updates have died out, or no finite point was found."""
        del fn, y, args, options, tags
        bad = state.result != RESULTS.successful
        good = optx.RESULTS.successful
        return state.done, optx.RESULTS.where(bad, optx.RESULTS.nonfinite, good)

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        """The best point."""
        del fn, y, args, options, tags, result
        return state.best, aux, {"num_non_finite": state.non_finite}
