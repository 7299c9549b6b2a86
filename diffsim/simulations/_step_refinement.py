"""`refined_steps`: smaller errors of the solver, to see what they do to an answer."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._jit._fresh_jit import SURROUNDINGS, Surrounding
from .._results import RESULTS, nan_unless
from .._validation import is_traced
from ._method import MAX_STEPS, Method, controller_of
from ._simulation import AbstractSimulation
from ._trajectory import Trajectory


#: The methods made finer so far; None outside `refined_steps`.
methods_made_finer: contextvars.ContextVar[list[Method | None] | None] = (
    contextvars.ContextVar("refined", default=None)
)

#: Part of the key by which JAX finds what it has compiled: a function that was compiled
#: before has the steps of then in it.
_compiled_for = jax.make_user_context(None)

#: A tenth of the tolerance, as half the step of a fourth-order solver, leaves about a
#: tenth of the error, so the difference is nearly all of it.
_TENTH = 0.1

#: Of the precision, which rounding alone makes of a step; see `default_controller`.
_ULPS_OF_TOLERANCE = 25 * 0.99


@contextlib.contextmanager
def refined_steps():
    """Context manager: `simulate` takes half the step, or a tenth of the tolerances.

    ```python
    system, method = problems.kepler(), ds.Method(integrators.Leapfrog(), step=0.01)
    coarse = ds.simulate(system, 10.0, method).states
    with simulations.refined_steps():
        fine = ds.simulate(system, 10.0, method).states
    fine.positions - coarse.positions  # 3/4 of the error of the coarse, at order 2
    ```

    Tolerances at the rounding of the state have no tenth that could be reached; such a
    run is extrapolated from itself and one with ten times its tolerances. Steps that
    are given, `Method.freeze_steps`, stay as they are.

    Nothing that was compiled outside or in an earlier block is used again: for many
    calls have the block inside a function that is compiled.

    **Returns:** a list that receives every method made finer; still empty at the end if
    nothing ran whose error a step decides.
    """
    with _refined_steps(object()) as methods:
        yield methods


@contextlib.contextmanager
def _refined_steps(key: Any) -> Iterator[list[Method | None]]:
    """The same, with what was compiled for an equal `key` used again."""
    methods: list[Method | None] = []
    token = methods_made_finer.set(methods)
    try:
        with _compiled_for(key):
            yield methods
    finally:
        methods_made_finer.reset(token)


def _note(count: int):
    """Of methods that a function was traced with that they were made finer."""
    methods = methods_made_finer.get()
    if methods is not None:
        methods.extend([None] * count)


SURROUNDINGS.append(
    Surrounding(
        methods_made_finer.get,
        lambda anew: _refined_steps(object() if anew else "traced"),
        _note,
    )
)


class Comparison(NamedTuple):
    """A method whose answer differs by the error of another, times `factor`.

    It has finer steps, and the factor is 1; or coarser ones, where the other method is
    at the rounding of the state, so that none is finer.
    """

    method: Method
    factor: float
    coarser: bool


def refine(
    method: Method, simulation: AbstractSimulation
) -> tuple[int, Method, Comparison | None]:
    """How often the longest step is halved, and `method` made finer if it can be.

    Beside it the run that it is to be extrapolated from, where it cannot be finer.
    """
    other = _refined_method(method, state_dtype(simulation))
    methods = methods_made_finer.get()
    if other is None or methods is None:
        return 0, method, None
    methods.append(other.method)
    return (0, method, other) if other.coarser else (1, other.method, None)


def refined_method(method: Method, dtype: Any) -> Comparison:
    """A run to tell the error of `method` from, on states of this type.

    **Raises:** `ValueError` for steps that are given.
    """
    found = _refined_method(method, dtype)
    if found is None:
        kind = type(method.controller).__name__
        raise ValueError(
            f"error_estimate=True repeats a run with other steps, and those of "
            f"{type(method.solver).__name__} under {kind} are given; take a step, or "
            "a controller that follows the error"
        )
    return found


def state_dtype(simulation: AbstractSimulation) -> np.dtype:
    """The real type that a simulation runs in."""
    start = eqx.filter_eval_shape(simulation.initial_state)
    kind = jnp.result_type(*jax.tree.leaves(start))
    # Integers become the default.
    kind = kind if jnp.issubdtype(kind, jnp.inexact) else jnp.result_type(float)
    return jnp.finfo(kind).dtype


def extrapolate(
    trajectory: Trajectory, other: Trajectory, comparison: Comparison
) -> Trajectory:
    """`trajectory` less its error, estimated from `other`, a run as compared."""

    def one(a, b):
        if not eqx.is_inexact_array(a):
            return a
        change = (a - b) / comparison.factor
        # Where both are infinite or no number there is nothing to extrapolate.
        return jnp.where(jnp.isnan(change), a, a + change)

    def numbers(x):
        return x.states, x.final, x.events

    result = RESULTS.where(
        jnp.asarray(other.result == RESULTS.successful), trajectory.result, other.result
    )
    found = jax.tree.map(one, numbers(trajectory), numbers(other))
    found = nan_unless(found, jnp.asarray(other.result == RESULTS.successful))
    return eqx.tree_at(lambda x: (*numbers(x), x.result), trajectory, (*found, result))


def _refined_method(method: Method, dtype: Any) -> Comparison | None:
    fine = _with_finer_steps(method, dtype)
    if fine is None:
        return None
    controller = fine.controller
    if not isinstance(controller, diffrax.PIDController) or is_traced(controller.rtol):
        return Comparison(fine, 1.0, False)
    least = _ULPS_OF_TOLERANCE * float(jnp.finfo(dtype).eps)
    if not 0 < controller.rtol < least:
        return Comparison(fine, 1.0, False)
    coarse = _scaled(method, 1 / _TENTH, dtype)
    assert coarse is not None
    # Steps are proportional to the root of the tolerance that their order says.
    order = method.solver.order(diffrax.ODETerm(lambda t, y, args: y)) or 1
    return Comparison(coarse, _TENTH ** (-order / (order + 1)) - 1, True)


@runtime_checkable
class ScalesSteps(Protocol):
    """A step-size controller whose steps are not chosen by an error."""

    def scaled(self, factor: float) -> diffrax.AbstractStepSizeController:
        """Itself, with steps that are longer by a factor."""
        ...


def _with_finer_steps(method: Method, dtype: Any) -> Method | None:
    constant = isinstance(method.controller, diffrax.ConstantStepSize | None)
    controller = (
        method.controller if not method.adaptive else controller_of(method, dtype)
    )
    if isinstance(controller, ScalesSteps):
        return _with(method, method.step, controller.scaled(0.5))
    if constant and method.step is not None:
        return _with(method, method.step / 2, controller)
    return _scaled(method, _TENTH, dtype)


def _scaled(method: Method, factor: float, dtype: Any) -> Method | None:
    """`method` with tolerances that are larger by a factor, if it has some."""
    controller = controller_of(method, dtype)
    if not isinstance(controller, diffrax.PIDController):
        return None
    controller = eqx.tree_at(
        lambda c: (c.rtol, c.atol), controller, replace_fn=lambda x: factor * x
    )
    if controller.dtmax is not None:
        longer = 0.5 if factor < 1 else 2.0
        controller = eqx.tree_at(
            lambda c: c.dtmax, controller, longer * controller.dtmax
        )
    return _with(method, method.step, controller)


def _with(method: Method, step: float | None, controller: Any) -> Method:
    """`method` with other steps, of which there may be twice as many."""
    bound = method.max_steps
    if bound is None and method.adaptive:
        bound = MAX_STEPS
    return Method(
        method.solver,
        step,
        controller=controller,
        adjoint=method.adjoint,
        max_steps=None if bound is None else 2 * bound,
    )
