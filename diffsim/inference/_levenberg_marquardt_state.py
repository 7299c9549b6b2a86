"""Objective and state of `LevenbergMarquardt`, and the parts of its step."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from .._results import RESULTS
from .._types import PyTree
from ._trust_region import Step


class Objective(eqx.Module):
    """Objective of a fit, where it is not half the sum of the squared rows.

    ```python
    t, counts = jnp.arange(6.0), jnp.array([52.0, 27.0, 16.0, 9.0, 5.0, 1.0])

    def decay(y, args):  # −ln L of Poisson's distribution, by Fisher scoring
        mean = y[0] * jnp.exp(-y[1] * t)
        rows = (mean - counts) / jnp.sqrt(jax.lax.stop_gradient(mean))
        loss = jnp.sum(mean - counts * jnp.log(mean))
        return rows, inference.Objective(loss, sigma=jnp.array(1.0))

    solver, start = inference.LevenbergMarquardt(), jnp.array([40.0, 0.5])
    y = optimistix.least_squares(decay, solver, start, has_aux=True).value
    jnp.sum(y[0] * jnp.exp(-y[1] * t))  # 110, as all counts together
    ```

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


class Trial(eqx.Module):
    """A point to try, and the step to it."""

    point: Float[Array, " parameter"]
    step: Step


class Evaluation(eqx.Module):
    """Evaluation of a point."""

    value: Float[Array, ""]
    finite: Bool[Array, ""]
    aux: PyTree[Any]
