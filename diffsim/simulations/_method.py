"""`Method`: how a simulation is run, never what is simulated."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._validation import count, instance, is_traced
from ._integrate._checkpointed_adjoint import AbstractScanAdjoint, Reversible


_Solver = TypeVar("_Solver", bound=diffrax.AbstractSolver)

#: The end of a run may be that of its frozen steps but for so many roundings.
_ULPS_AT_END = 16

#: `max_steps` of adaptive runs where the method does not say.
MAX_STEPS = 2**16


class Method(eqx.Module):
    r"""Time integrator, step-size control and adjoint of a run.

    ```python
    ds.Method(integrators.Leapfrog(), step=0.01)  # fixed steps
    ds.Method(diffrax.Dopri8())  # adaptive, rtol = atol = 1e-8, 3e-6 in float32
    ds.Method(diffrax.Dopri8(), step=2.0)  # high order at fixed steps
    ```

    **Arguments**

    - `solver`: any `diffrax.AbstractSolver`, ours or Diffrax's.
    - `step`: length of the fixed steps, a positive Python float in units of time. The
        grid is `t0 + n step`, in both directions. With a `controller`: the first step.
    - `controller`: a `diffrax.AbstractStepSizeController`; None means fixed steps where
        `step` is given and `PIDController(rtol=1e-8, atol=1e-8)` where it is not, 3e-6
        for states in float32. Of solvers with implicit stages the steps it chooses end
        at outputs. Fields whose rate reads the time give a `PIDController` without
        `dtmax` that of a hundredth of the run.
    - `adjoint`: None serves forward and reverse mode and their nestings: adaptive runs
        of explicit solvers, and of `IMEXTerm` dynamics, along the steps that they took,
        others by Diffrax's `ForwardMode` and `RecursiveCheckpointAdjoint` both.
        `Reversible()` and `Checkpointed()` save memory at fixed steps. With a Diffrax
        adjoint the run is `diffrax.diffeqsolve`, which interpolates between steps.
    - `max_steps`: bound on the number of steps. At fixed steps it is needed only where
        times or `t0` are traced. Of adaptive runs None is 65536 under `jit` and in
        derivatives, not counting one for each output that a step ends at; elsewhere
        such a run goes on from where these led, and warns once if it will take far
        more than a million. With events, whose steps are all kept,
        it is less where states are large, and the run does not go on.

    **Good values:** see "How to choose" in the documentation.

    **Raises:** `ValueError` for a combination that cannot run.
    """

    solver: diffrax.AbstractSolver[Any]
    step: float | int | None = eqx.field(
        static=True, default=None, converter=lambda step: _checked_step(step)
    )
    controller: "diffrax.AbstractStepSizeController[Any, Any] | PrescribedSteps | None" = (  # noqa: E501
        eqx.field(kw_only=True, default=None)
    )
    adjoint: diffrax.AbstractAdjoint | AbstractScanAdjoint | None = eqx.field(
        kw_only=True, default=None
    )
    max_steps: int | None = eqx.field(kw_only=True, static=True, default=None)

    def __check_init__(self) -> None:
        follows = diffrax.AbstractStepSizeController | PrescribedSteps | None
        adjoints = diffrax.AbstractAdjoint | AbstractScanAdjoint | None
        example = "integrators.Leapfrog() or diffrax.Dopri8()"
        instance("solver", self.solver, diffrax.AbstractSolver, example)
        example = "diffrax.PIDController(rtol=1e-6, atol=1e-6)"
        instance("controller", self.controller, follows, example)
        instance("adjoint", self.adjoint, adjoints, "simulations.Reversible()")
        if self.step is None and self.controller is None and not _estimates_error(self):
            raise ValueError(
                f"{type(self.solver).__name__} has no error estimate to choose its own "
                "steps by; give Method(solver, step=...)"
            )
        if self.adaptive and not _estimates_error(self) and _controls(self.controller):
            raise ValueError(
                f"{type(self.solver).__name__} runs at fixed steps only, got the "
                f"controller {type(self.controller).__name__}: it has no error "
                "estimate to follow, and what is symplectic is so at fixed steps; give "
                "step= and no controller"
            )
        if _controls(self.controller) and isinstance(self.solver, ChoosesSteps):
            _check_own_controller(self.solver, self.controller)
        if isinstance(self.adjoint, AbstractScanAdjoint) and self.adaptive:
            raise ValueError(
                f"{type(self.adjoint).__name__} belongs to fixed steps; give step= and "
                "no controller, or a Diffrax adjoint"
            )
        if isinstance(self.adjoint, Reversible) and not is_symmetric(self.solver):
            raise ValueError(
                f"Reversible needs a time-symmetric solver, got "
                f"{type(self.solver).__name__}; take Leapfrog or Yoshida4, or the "
                "adjoint Checkpointed()"
            )
        if self.max_steps is not None:
            count("max_steps", self.max_steps)

    @property
    def adaptive(self) -> bool:
        """Whether a controller chooses the steps."""
        return self.step is None or self.controller is not None

    @property
    def uses_scan(self) -> bool:
        """Whether the run is our scan: fixed steps, and no adjoint of Diffrax's."""
        return not self.adaptive and not isinstance(
            self.adjoint, diffrax.AbstractAdjoint
        )

    def freeze_steps(self, trajectory: Any) -> "Method":
        """This method with the steps of `trajectory`, whatever the parameters become.

        Step-size controllers hide how the steps depend on parameters, so two adaptive
        runs differ by more than their physics; derivative tests use frozen steps.

        **Raises:** `ValueError` if the trajectory is traced or recorded no steps.
        """
        if not self.adaptive:
            return self
        if trajectory.steps is None or is_traced(trajectory.steps):
            raise ValueError(
                "freeze_steps needs the steps of a concrete adaptive run; call it "
                "outside jit with the trajectory that simulate returned"
            )
        steps = np.asarray(trajectory.steps)
        ends = steps[np.isfinite(steps)]
        return Method(
            self.solver,
            controller=PrescribedSteps(ends),
            adjoint=self.adjoint,
            max_steps=ends.size + 1,
        )


class PrescribedSteps(eqx.Module):
    """Steps that end at given times, before and after the epoch alike."""

    ends: np.ndarray

    def towards(self, t0: float, end: float) -> diffrax.StepTo:
        """Diffrax's controller in elapsed time from `t0` to `end` after it, either way;
        the last step is cut.
        """
        ends = np.asarray(self.ends, np.float64) - t0
        _check_spanned(ends, t0, end)
        inside = ends[(ends > min(0.0, end)) & (ends < max(0.0, end))]
        inside = inside if end > 0 else inside[::-1]
        return diffrax.StepTo(np.concatenate([[0.0], inside, [end]]))


def _check_spanned(ends: np.ndarray, t0: float, end: float):
    """Refuse a run that the frozen steps, after `t0`, do not lead through."""
    if end == 0:
        return
    ahead = np.sort(np.sign(end) * ends)
    rounding = _ULPS_AT_END * np.spacing(max(abs(t0), abs(t0 + end)))
    covers = ahead.size and ahead[-1] >= abs(end) - rounding
    # Where the recorded run began is not in its steps, but it was no step away.
    longest = np.max(np.diff(ahead), initial=0.0)
    if covers and (ahead.size < 2 or ahead[0] <= 2 * longest):
        return
    lower, upper = t0 + np.min(ends, initial=0.0), t0 + np.max(ends, initial=0.0)
    raise ValueError(
        f"frozen steps go from {lower:.6g} to {upper:.6g}, and this run from {t0:.6g} "
        f"to {t0 + end:.6g} would take the rest in one step; freeze those of a run "
        "that goes as far"
    )


@runtime_checkable
class ChoosesSteps(Protocol):
    """A solver whose steps nothing chooses as well as what it brings along."""

    @property
    def default_controller(self) -> diffrax.AbstractStepSizeController:
        """Their step-size control."""
        ...


def controller_of(
    method: Method, dtype: Any
) -> "diffrax.AbstractStepSizeController[Any, Any] | PrescribedSteps":
    """The step-size controller of an adaptive run of states of this type."""
    if method.controller is not None:
        return method.controller
    if isinstance(method.solver, ChoosesSteps):
        return method.solver.default_controller
    return default_controller(dtype)


def default_controller(dtype: Any) -> diffrax.PIDController:
    """Of an adaptive run of states of this type, where nothing else is said."""
    # Rounding alone makes an error of a few of the precision, whatever the step.
    tolerance = max(1e-8, 25 * float(jnp.finfo(dtype).eps))
    return diffrax.PIDController(rtol=tolerance, atol=tolerance)


def with_root_tolerances(solver: _Solver, dtype: Any) -> _Solver:
    """`solver`, for fixed steps; Diffrax takes the tolerances of implicit stages from
    a controller, which there is none of.
    """
    # What stands in root finders that are to ask a controller.
    unset = diffrax.ImplicitEuler().root_finder.rtol
    finder = getattr(solver, "root_finder", None)
    names = [
        name
        for name in ("rtol", "atol", "norm")
        if finder is not None and getattr(finder, name, None) is unset
    ]
    if not names:
        return solver
    given = default_controller(dtype)
    return eqx.tree_at(
        lambda s: [getattr(s.root_finder, name) for name in names],
        solver,
        [getattr(given, name) for name in names],
    )


def is_symmetric(solver: diffrax.AbstractSolver) -> bool:
    """Whether a step with the sign of time reversed undoes a step."""
    return getattr(type(solver), "time_symmetric", False)


def _estimates_error(method: Method) -> bool:
    return isinstance(method.solver, diffrax.AbstractAdaptiveSolver)


def _controls(controller) -> bool:
    """Whether the controller follows an error estimate."""
    given = (diffrax.StepTo, diffrax.ConstantStepSize, PrescribedSteps)
    return not isinstance(controller, given)


def _check_own_controller(solver: ChoosesSteps, controller: Any):
    """Refuse to choose steps by an error that a solver does not estimate."""
    name, given = type(solver).__name__, type(controller).__name__
    if controller is None or isinstance(controller, type(solver.default_controller)):
        return
    raise ValueError(
        f"{name} chooses its steps by the timescale of the motion and estimates no "
        f"error for a {given}; leave controller=None, and give {name}(epsilon=...) for "
        "other steps"
    )


def _checked_step(step):
    """`step`, a NumPy number as the Python number it stands for."""
    if step is None:
        return None
    step = step.item() if isinstance(step, np.floating | np.integer) else step
    if not isinstance(step, float | int) or isinstance(step, bool):
        raise ValueError(
            f"step must be a Python number, got {type(step).__name__}: it fixes the "
            "number of steps, which compiled code cannot change; float(step) may do"
        )
    if not step > 0:
        raise ValueError(
            f"step must be positive, got {step}; times before t0 run backwards by "
            "themselves"
        )
    if step == np.inf:
        raise ValueError("step must be finite, got inf; None lets the error choose")
    return step
