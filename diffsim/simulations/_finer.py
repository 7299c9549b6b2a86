"""`finer_steps`: smaller errors of the solver, to see what they do to an answer."""

import contextlib
import contextvars

import diffrax
import equinox as eqx
import jax.numpy as jnp

from ._method import MAX_STEPS, Method, default_controller


#: The methods made finer so far; None outside `finer_steps`.
_refined: contextvars.ContextVar[list[Method] | None] = contextvars.ContextVar(
    "refined", default=None
)

#: A tenth of the tolerance, as half the step of a fourth-order solver, leaves about a
#: tenth of the error, so the difference is nearly all of it.
_TENTH = 0.1


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


def _finer(method: Method) -> Method | None:
    step, controller, bound = method.step, method.controller, method.max_steps
    if not method.adaptive and step is not None:
        step = step / 2
    elif controller is None or isinstance(controller, diffrax.PIDController):
        widest = jnp.result_type(float)
        given = default_controller(widest) if controller is None else controller
        controller = eqx.tree_at(
            lambda c: (c.rtol, c.atol), given, replace_fn=lambda x: _TENTH * x
        )
        bound = bound or MAX_STEPS
    else:
        return None
    more = None if bound is None else 2 * bound
    return Method(
        method.solver,
        step,
        controller=controller,
        adjoint=method.adjoint,
        max_steps=more,
    )
