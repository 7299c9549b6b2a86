"""The method of a run: what is given, or the default with what the call changes."""

from typing import Any

import diffrax
import equinox as eqx

from .._checks import as_floating, check_positive
from ._method import Method, default_controller
from ._simulation import AbstractSimulation


def chosen_method(
    simulation: AbstractSimulation, method: Method | None, options: dict[str, Any]
) -> Method:
    """`method`, or the default one of `simulation` with `options` put into it.

    **Arguments**

    - `options`: `max_steps`, `step` and `rtol`; None changes nothing.
    """
    given = [name for name, value in options.items() if value is not None]
    if method is not None:
        if given:
            raise ValueError(
                f"{given[0]}={options[given[0]]!r} changes the default method, and "
                f"method={type(method.solver).__name__} is given as well; write it "
                f"into that, Method(..., {_as_written(given[0])})"
            )
        return method
    method = simulation.default_method()
    if not given:
        return method
    if options["step"] is not None and options["rtol"] is not None:
        raise ValueError(
            f"step={options['step']!r} asks for fixed steps and "
            f"rtol={options['rtol']!r} for a controller that chooses them; give one"
        )
    step, controller = method.step, method.controller
    if options["step"] is not None:
        step, controller = options["step"], None
    elif options["rtol"] is not None:
        controller = _with_tolerance(method, options["rtol"])
    bound = options["max_steps"]
    return Method(
        method.solver,
        step,
        controller=controller,
        adjoint=method.adjoint,
        max_steps=method.max_steps if bound is None else bound,
    )


def _as_written(name: str) -> str:
    if name == "rtol":
        return "controller=diffrax.PIDController(rtol=..., atol=...)"
    return f"{name}=..."


def _with_tolerance(method: Method, rtol: Any) -> diffrax.PIDController:
    check_positive("rtol", as_floating("rtol", rtol))
    controller = method.controller
    if controller is None and method.step is None:
        controller = default_controller(float)
    if not isinstance(controller, diffrax.PIDController):
        chosen = (
            f"step={method.step}"
            if controller is None
            else f"controller={type(controller).__name__}()"
        )
        raise ValueError(
            f"rtol={rtol!r} needs a default method that chooses its steps by their "
            f"error, this is {type(method.solver).__name__} with {chosen}; give "
            "method=Method(diffrax.Dopri8(), controller=...), or step="
        )
    old = controller.rtol
    # A tolerance of an absolute error alone is one in units of its own.
    scaled = controller.atol * (rtol / old) if old else controller.atol
    return eqx.tree_at(lambda c: (c.rtol, c.atol), controller, (rtol, scaled))
