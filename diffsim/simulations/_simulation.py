"""`AbstractSimulation`: physics, initial state and epoch in one pytree."""

import abc
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._results import RESULTS
from .._types import PyTree
from .._validation import as_floating, instance, positive
from ._method import Method, controller_of
from ._state_axes import AbstractStateAxes


class AbstractSimulation(eqx.Module):
    r"""Initial-value problem: $\dot y = f(t, y;\, \theta)$ with $y(t_0) = y_0(\theta)$.

    A subclass is an Equinox module whose floating-array fields are the parameters
    $\theta$. Store parameters as arrays and derive everything else on use: what is
    derived in `__init__` is cut off from its gradient.

    ```python
    class Decay(ds.AbstractSimulation):
        rate: jax.Array
        t0: float = 0.0

        def initial_state(self):
            return jnp.ones(3)

        def terms(self):
            return diffrax.ODETerm(lambda t, y, args: -args.rate * y)

        def default_method(self):
            return ds.Method(diffrax.Dopri8())

    ds.simulate(Decay(jnp.array([0.1, 1.0, 10.0])), [0.5, 1.0]).states
    ```

    **Fields**

    - `t0`: the epoch. A Python float is static, so the number of fixed steps is known
        while tracing; an array is a parameter like any other. `eqx.filter_jit` and
        `eqx.filter_grad` leave a float static, `jax.jit` and `jax.grad` trace it.

    **Limits:** $\dot y = f(t, y)$, stiff or not; no mass matrix and no algebraic
    equations beside it (convenience; solve those in f by `implicit.root`).
    """

    t0: eqx.AbstractVar[float | Array]

    #: Paths that `fit` and `fisher` free by default; None frees every float leaf.
    free: ClassVar[tuple[str, ...] | None] = None
    #: DOIs and arXiv numbers that `diffsim.cite` prints.
    references: ClassVar[tuple[str, ...]] = ()
    #: Whether reverse mode takes a fixed step that has nothing to search for a second
    #: time, from its start, and does not store what it goes through. For fields, of
    #: which that is up to fifty times as much as the state; not for bodies.
    rematerialize_steps: ClassVar[bool] = False
    #: Whether adaptive steps are a hundredth of a run at most where the rate reads the
    #: time, so that what acts as long is not skipped.
    bounds_steps: ClassVar[bool] = False

    @abc.abstractmethod
    def initial_state(self) -> PyTree[Array]:
        """The state at `t0`, in physical variables, any pytree of arrays."""

    @abc.abstractmethod
    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        """The dynamics as one Diffrax term that any explicit solver can step.

        `diffrax.ODETerm(lambda t, y, args: ...)` is enough; `Separable` opens the
        symplectic solvers. `args` is the simulation itself.
        """

    @abc.abstractmethod
    def default_method(self) -> Method:
        """A good choice, so that nobody must know integrators to start."""

    def _checked_default_method(self) -> Method:
        """`default_method()`, or `ValueError` for what is no `Method`."""
        method = self.default_method()
        instance("default_method()", method, Method, "Method(diffrax.Dopri8())")
        return method

    def state_axes(self) -> AbstractStateAxes | None:
        """Names of the parts and axes of what `observe` returns, for `Trajectory.axes`.

        A `StateAxes` for instance; None by default, and names follow from the pytree.
        """
        return None

    def check_method(
        self, method: Method, duration: float | None = None
    ) -> bool | None:
        """Raise `ValueError` for a method, or warn of it, before a run; default none.

        `duration` is the time that the run takes, None where JAX traces it.

        **Returns:** True where it warned that fixed steps are unstable, so that a run
        which then grows a millionfold is `RESULTS.unstable_steps`.
        """
        del method, duration

    def prepare(self) -> "AbstractSimulation":
        """Return the same for a run, with what no step changes worked out; self.

        Its rates are those of this one, and so are its derivatives.
        """
        return self

    def blow_up(self) -> RESULTS:
        """Return the name of a failure in which the state is lost to infinity or NaN.

        `RESULTS.non_finite` by default, which may have any cause.
        """
        return RESULTS.non_finite

    def locate(self, t: Any, y: PyTree[Array]) -> str | None:
        """Return a sentence on what is wrong with the last state before a failure.

        For a person, outside compiled code; None where nothing is known, and by
        default.
        """
        del t, y
        return None

    def is_valid(self) -> Bool[Array, ""]:
        """Whether its parameters can be; a run of others is `invalid_parameter`.

        Asked in every run, also where a fit or a sweep brought them; True by default.
        """
        return jnp.asarray(True)

    def observe(self, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        """The public form of the state `y` at time `t`; the state itself by default."""
        del t
        return y


def method_with_options(
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
    method = simulation._checked_default_method()
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
    positive("rtol", as_floating("rtol", rtol))
    controller = method.controller if method.step else controller_of(method, float)
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
