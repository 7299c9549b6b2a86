"""Adaptive steps inside of a step of another solver."""

from typing import Any, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS, nan_unless
from ..._types import PyTree
from .._elapsed_time import Epoch
from .._method import Method, controller_of
from ._integrate import adaptive_outputs
from ._plan import AdaptivePlan, Plan, RunSpec, with_loop


class _Inner(eqx.Module):
    """Dynamics by terms that are known, as runs ask simulations for them."""

    rate: Any

    def terms(self) -> diffrax.ODETerm:
        return diffrax.ODETerm(self.rate)


class _Rate(eqx.Module):
    """The rate of a state by `terms`, of whatever simulation they ask."""

    dynamics: Any
    args: Any

    def __call__(self, t, y, args):
        del args
        return self.dynamics.vf(t, y, self.args)


def adaptive_substeps(
    solver: diffrax.AbstractSolver[Any],
    terms: Any,
    t: Array,
    length: Array,
    y: PyTree[Array],
    args: Any,
    *,
    max_steps: int,
) -> PyTree[Array]:
    r"""Return the state `length` after y at t, by as many steps as `solver` chooses.

    $$y(t + \ell), \qquad y' = f(t, y)$$

    For solvers that hand a step over to another one where it is too long. It is
    differentiated along the steps that were taken, in every mode, inside of scans and
    branches as well.

    ```python
    rate = diffrax.ODETerm(lambda t, y, args: -args * y)
    start = 0.0, jnp.asarray(1.0), jnp.ones(2)  # t, how far, y
    simulations.adaptive_substeps(diffrax.Tsit5(), rate, *start, 3.0, max_steps=64)
    ```

    **Arguments**

    - `solver`, `terms`, `args`: as `solver.step` takes them.
    - `t`, `length`, `y`: where it begins, how far it goes, and the state there.
    - `max_steps`: bound of the number of steps.

    **Returns**

    The state there; NaN where `max_steps` do not lead there.

    **Good values:** `max_steps` of a few thousand: they cost memory for derivatives.

    **Limits:** terms of one rate, `diffrax.ODETerm`s and separable ones (convenience).
    """
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype
    method, epoch = Method(solver, max_steps=max_steps), Epoch(0.0, dtype)
    t, length = jnp.asarray(t, dtype), jnp.asarray(length, dtype)
    controller = cast(Any, controller_of(method, dtype))
    inner = _Inner(_Rate(terms, args))
    request = RunSpec(
        cast(Any, inner),
        Plan(method, None, 0),
        epoch,
        t,
        t,
        y,
        diffrax.NoProgressMeter(),
    )
    end = t + length
    side = AdaptivePlan(1, max_steps, controller)
    side = with_loop(side, method, inner.terms(), y)
    run = adaptive_outputs(request, side, span=(t, end), times=end[None])
    state = jax.tree.map(lambda a: a[0], run.states)
    return nan_unless(state, jnp.asarray(run.result == RESULTS.successful))
