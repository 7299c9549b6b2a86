"""`AbstractSimulation`: physics, initial state and epoch in one pytree."""

import abc
import typing
from typing import Any, ClassVar, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._jaxpr._tracing import explain_tracer_errors
from .._results import RESULTS
from .._types import PyTree
from .._validation import as_floating, instance, positive
from ._integrate._step import is_ode_term
from ._method import Method, controller_of
from ._state_axes import AbstractStateAxes
from ._terms._operator_splitting import AbstractSplitFlows
from ._terms._separable import Separable


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


@runtime_checkable
class ChecksDynamics(Protocol):
    """A solver of some dynamics only, which says which."""

    def check_dynamics(
        self, terms: Any, t: Array, y: PyTree[Array], simulation: Any
    ) -> None:
        """Raise `ValueError` for others; evaluated for its shapes."""
        ...


def check_dynamics(
    simulation: AbstractSimulation,
    solver: diffrax.AbstractSolver,
    t0: Array,
    y0: PyTree[Array],
):
    """Raise `ValueError` for terms `solver` cannot step and rates unlike the state."""

    def check(simulation, t0, y0):
        terms = simulation.terms()
        _check_terms(terms)
        _check_solver(solver, terms)
        if isinstance(solver, ChecksDynamics):
            solver.check_dynamics(terms, t0, y0, simulation)
        if isinstance(terms, Separable):
            _check_pair(y0)
        if is_ode_term(terms):
            # Not by `ODETerm.vf`, which broadcasts to the state.
            plain = isinstance(terms, diffrax.ODETerm)
            field = terms.vector_field if plain else terms.vf
            with explain_tracer_errors(f"terms of {type(simulation).__name__}"):
                rate = field(t0, y0, simulation)
            _check_rate(y0, rate)

    # Evaluated for its shapes: nothing of it is left in the run.
    eqx.filter_eval_shape(check, simulation, t0, y0)


def check_precision(y0: PyTree[Array]):
    """Refuse states of no numbers, and of several precisions."""
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(y0)}
    if not kinds:
        raise ValueError(
            f"initial_state() must hold at least one array, got {y0!r:.60}"
        )
    coarse = sorted(kinds & {"float16", "bfloat16"})
    if coarse:
        raise ValueError(
            f"initial_state() must be in float32 or float64, got {coarse[0]}, whose "
            "rounding a run would add up; cast it, x.astype(jnp.float32) say"
        )
    if len(kinds) > 1:
        got = " and ".join(sorted(kinds))
        raise ValueError(
            f"initial_state() must be of one precision, got {got}; a step "
            "would cast what is coarser: cast it there, x.astype(jnp.float64) say"
        )


def _check_terms(terms: Any):
    def is_term(x):
        return isinstance(x, diffrax.AbstractTerm)

    found = jax.tree.leaves(terms, is_leaf=is_term)
    if not found or not all(map(is_term, found)):
        raise ValueError(
            f"terms() must return a Diffrax term, got a {type(terms).__name__}; "
            "diffrax.ODETerm(vector_field) makes one of a function"
        )

    def is_noise(x):
        return isinstance(x, diffrax.AbstractBrownianPath)

    noises = [x for x in jax.tree.leaves(terms, is_leaf=is_noise) if is_noise(x)]
    if noises:
        raise ValueError(
            f"terms() must be of an ordinary differential equation, got a "
            f"{type(noises[0]).__name__}; stochastic ones are for diffrax.diffeqsolve"
        )


def _check_solver(solver: diffrax.AbstractSolver, terms: Any):
    structure = solver.term_structure
    if isinstance(structure, tuple):
        fits, wanted = isinstance(terms, tuple), f"a tuple of {len(structure)} terms"
    else:
        kind = typing.get_origin(structure) or structure
        fits, wanted = isinstance(terms, kind), f"{kind.__name__} dynamics"
    if fits:
        return
    advice = (
        "Take an explicit Runge–Kutta solver instead, diffrax.Dopri8() at fixed steps "
        "say"
    )
    if structure in (Separable, AbstractSplitFlows):
        wanted = "Separable dynamics, whose accelerations do not depend on velocity"
    if structure is AbstractSplitFlows:
        wanted += ", or SplitFlows"
    if wanted.startswith("MultiTerm"):
        wanted += ", an explicit and an implicit term"
        advice = "Take integrators.Kvaerno5() where all of one term is stiff"
    raise ValueError(
        f"{type(solver).__name__} needs {wanted}; got {type(terms).__name__}. {advice}"
    )


def _check_pair(y0: PyTree[Array]):
    if type(y0) is not tuple or len(y0) != 2:
        got = "an array" if eqx.is_array(y0) else f"a {type(y0).__name__}"
        raise ValueError(
            f"Separable dynamics need an initial_state() that is a tuple (x, v), got "
            f"{got}; for other states take diffrax.ODETerm"
        )


def _check_rate(y0: PyTree[Array], rate: PyTree[Any]):
    """Steps would broadcast or promote what does not agree, and so change the state."""
    ours, theirs = jax.tree.structure(y0), jax.tree.structure(rate)
    if ours != theirs:
        raise ValueError(
            f"the vector field must return the structure of the state, {ours}, got "
            f"{theirs}"
        )
    states, _ = jax.tree_util.tree_flatten_with_path(y0)
    for (path, y), r in zip(states, jax.tree.leaves(rate), strict=True):
        if jnp.shape(r) != y.shape or jnp.result_type(y, r) != y.dtype:
            where = jax.tree_util.keystr(path)
            raise ValueError(
                f"the vector field must return what state{where} is, {y.dtype} of "
                f"shape {y.shape}, got {jnp.result_type(r)} of shape {jnp.shape(r)}; "
                "nothing is broadcast or cast for you"
            )
