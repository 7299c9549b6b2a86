"""`finer_steps`: smaller errors of the solver, to see what they do to an answer."""

import contextlib
import contextvars
from typing import Any, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax.numpy as jnp

from .._checks import is_traced
from ._method import MAX_STEPS, Method, default_controller


#: The methods made finer so far; None outside `finer_steps`.
_refined: contextvars.ContextVar[list[Method] | None] = contextvars.ContextVar(
    "refined", default=None
)

#: A tenth of the tolerance, as half the step of a fourth-order solver, leaves about a
#: tenth of the error, so the difference is nearly all of it.
_TENTH = 0.1

#: Of the precision, which rounding alone makes of a step; see `default_controller`.
_ULPS_OF_TOLERANCE = 25 * 0.99


@contextlib.contextmanager
def finer_steps():
    """Inside, `simulate` takes half the step, or a tenth of the tolerances.

    **Returns:** a list that receives every method made finer; still empty at the end if
    nothing ran whose error a step decides.
    """
    methods: list[Method] = []
    token = _refined.set(methods)
    try:
        yield methods
    finally:
        _refined.reset(token)


def as_asked(method: Method) -> Method:
    """`method`, made finer inside `finer_steps` if it has an error to make smaller."""
    methods = _refined.get()
    if methods is None:
        return method
    fine = _finer(method)
    if fine is None:
        return method
    methods.append(fine)
    return fine


def compared(method: Method, dtype: Any) -> tuple[Method, float]:
    """A method whose answer differs by the error of `method`, times a factor.

    One with finer steps, and the factor 1; where `method` is at the rounding of states
    of this type, so that none is finer, one with coarser steps.

    **Raises:** `ValueError` for steps that are given.
    """
    fine = _finer(method, dtype)
    if fine is None:
        kind = type(method.controller).__name__
        raise ValueError(
            f"error_estimate=True repeats a run with other steps, and those of "
            f"{type(method.solver).__name__} under {kind} are given; take a step, or "
            "a controller that follows the error"
        )
    controller = fine.controller
    if not isinstance(controller, diffrax.PIDController) or is_traced(controller.rtol):
        return fine, 1.0
    least = _ULPS_OF_TOLERANCE * float(jnp.finfo(dtype).eps)
    if not 0 < controller.rtol < least:
        return fine, 1.0
    coarse = _scaled(method, 1 / _TENTH, dtype)
    assert coarse is not None
    # Steps are proportional to the root of the tolerance that their order says.
    order = method.solver.order(diffrax.ODETerm(lambda t, y, args: y)) or 1
    return coarse, _TENTH ** (-order / (order + 1)) - 1


@runtime_checkable
class ScalesSteps(Protocol):
    """A step-size controller whose steps are not chosen by an error."""

    def scaled(self, factor: float) -> diffrax.AbstractStepSizeController:
        """Itself, with steps that are longer by a factor."""
        ...


def _finer(method: Method, dtype: Any = None) -> Method | None:
    controller = method.controller
    if isinstance(controller, ScalesSteps):
        return _with(method, method.step, controller.scaled(0.5))
    constant = isinstance(controller, diffrax.ConstantStepSize | None)
    if constant and method.step is not None:
        return _with(method, method.step / 2, controller)
    return _scaled(method, _TENTH, dtype)


def _scaled(method: Method, factor: float, dtype: Any) -> Method | None:
    """`method` with tolerances that are larger by a factor, if it has some."""
    controller = method.controller
    if controller is None:
        kind = jnp.result_type(float) if dtype is None else dtype
        controller = default_controller(kind)
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
