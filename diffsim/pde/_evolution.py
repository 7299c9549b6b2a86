"""`Evolution`: an initial–boundary value problem."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._jaxpr._tracing import explain_tracer_errors
from .._results import RESULTS
from .._types import Numbers, PyTree
from .._validation import (
    all_hold,
    as_floating,
    check_precision,
    checked_return,
    function_of,
    instance,
    is_traced,
    scalar,
)
from ..integrators import AbstractExponentialSolver
from ..simulations import (
    AbstractSimulation,
    AbstractSplittingSolver,
    AbstractUnsynchronizedSolver,
    Method,
)
from ._boundaries import AbstractBoundary
from ._discretizations import AbstractDiscretization, FiniteVolume, Fourier
from ._domain import Domain, sides_of
from ._equations import (
    AbstractConservationLaw,
    AbstractEquation,
    AbstractFiniteVolumeEquation,
    AbstractSecondOrderInTime,
    AbstractSpectralEquation,
    AbstractSplitStepEquation,
    AdvectionDiffusion,
    Diffusion,
    Euler,
    NavierStokesVelocity,
    NavierStokesVorticity,
    Schrodinger,
    ShallowWater,
    check_coefficients,
    check_positive_boundary,
)
from ._field_axes import FieldAxes
from ._finite_volume import values_on_faces
from ._grid import Grid
from ._time_step import LinearizedModes, warn_if_unstable


class Evolution(AbstractSimulation):
    r"""Initial–boundary value problem: $\partial_t u = F(t, u)$ on a grid.

    ```python
    grid = pde.Grid((64, 64))
    x, y = grid.centers
    hot = jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    plate = pde.Evolution(pde.Diffusion(0.01), hot, grid, pde.Dirichlet(0.0))
    ds.simulate(plate, [0.5, 1.0]).states
    ```

    Coefficients, initial field, boundary values and the corners of the grid are
    parameters alike; `fit` and `fisher` take all of them but where `free` names some,
    `free=["equation.diffusivity"]`.

    **Arguments**

    - `equation`: a `Diffusion` or another of this package, or your own
        `AbstractEquation`.
    - `initial`: the field at `t0`, shape (channel, *grid), or (*grid) for one channel;
        or a function of x, shape (axis, *grid), that returns one, a number or one a
        channel, taken at `grid.centers`. A function that is a pytree with numbers, as
        an `eqx.Module` is, is kept, and they are parameters, `initial.amplitude`; of
        any other what it returns is kept, and that is a parameter.
    - `grid`: a `Grid`.
    - `boundary`: one for all sides, or a tuple with an entry for each axis, one for
        both of its sides or a pair; None is periodic. Of one axis the pair will do.
    - `discretization`: what the field is made of: `FiniteVolume()`, the default of
        every equation that has a form in them, or `Fourier()` on periodic grids.
    - `t0`: the epoch. A Python number is static; an array is a parameter.

    States have shape (time, channel, *grid), in either space.

    **Raises:** `ValueError` for an initial field or a coefficient of another shape,
    sides without a boundary, boundary values that are not finite, and an equation
    without a form in this space or so many dimensions.

    **Limits:** backwards in time diffusion and damping make rounding grow without
    bound, of which nothing warns (mathematics). What acts for less than a hundredth of
    an adaptive run, a pulse of a source say, may be skipped (mathematics: nothing is
    seen between two evaluations): bound the steps there, `Method(solver,
    controller=diffrax.PIDController(rtol=1e-8, atol=1e-8, dtmax=0.1))`, let them end
    where it begins, `diffrax.ClipStepSizeController(controller, jump_ts=times)`, or
    take fixed ones, `Method(solver, step=0.1)`.
    """

    equation: AbstractEquation
    initial: Float[Array, "channel *grid"] | Callable[[Array], Any]
    grid: Grid
    boundary: tuple[tuple[AbstractBoundary, AbstractBoundary], ...]
    discretization: AbstractDiscretization
    t0: float | Array

    rematerialize_steps: ClassVar[bool] = True
    bounds_steps: ClassVar[bool] = True

    def __init__(
        self,
        equation: AbstractEquation,
        initial: Numbers | Callable[[Array], Any],
        grid: Grid,
        boundary: Any = None,
        *,
        discretization: AbstractDiscretization | None = None,
        t0: float | Array = 0.0,
    ):
        _check_kinds(equation, grid, discretization)
        self.equation = equation
        self.grid = grid
        self.boundary = sides_of(boundary, grid.ndim)
        field = _evaluate_initial_field(initial, equation, grid)
        _check_finite(field)
        kept: Any = initial if _has_parameters(initial) else field
        self.initial = kept
        self.discretization = (
            _discretization_of(equation) if discretization is None else discretization
        )
        self.discretization.check(equation, self.domain)
        check_coefficients(equation, len(field), grid.shape)
        scalar("t0", t0)
        self.t0 = t0
        self._check_boundary(field)
        if isinstance(equation, AbstractFiniteVolumeEquation):
            equation.check(field, self.domain)

    def _check_boundary(self, field: Array):
        """Raise `ValueError` for values that no side of this equation can have."""
        second_order = isinstance(self.equation, AbstractSecondOrderInTime)
        u = field[: len(field) // 2] if second_order else field
        for known in self.domain.check_boundary_values(u, self.t0):
            if isinstance(self.equation, AbstractConservationLaw):
                check_positive_boundary(self.equation, known)

    @property
    def domain(self) -> Domain:
        """The grid with its boundaries."""
        return Domain(self.grid, self.boundary)

    @property
    def initial_field(self) -> Float[Array, "channel *grid"]:
        """The field at `t0`, also where `initial` is a function."""
        return _evaluate_initial_field(self.initial, self.equation, self.grid)

    def initial_state(self) -> PyTree[Array]:
        return self.discretization.state(self.equation, self.initial_field, self.domain)

    def check_method(self, method: Method, duration: float | None = None) -> bool:
        _check_solver(self, method.solver)
        return warn_if_unstable(self, method, duration)

    def courant_rate(self, t: Any, y: Any) -> Array | None:
        """Courant rate of a state: cells crossed a time; None without waves."""
        field = self.observe(t, y)
        return self.discretization.courant_rate(self.equation, t, field, self.domain)

    def waves(self, t: Any, y: Any) -> LinearizedModes | None:
        """Linearized dynamics of the modes of a state; None where not known."""
        return self.discretization.waves(
            self.equation, t, self.observe(t, y), self.domain
        )

    def is_valid(self) -> Bool[Array, ""]:
        return self.grid.is_valid() & all_hold(self.equation.positive_parameters())

    def blow_up(self) -> RESULTS:
        lost = bool(self.equation.positive_fields)
        return RESULTS.positivity_lost if lost else RESULTS.field_not_finite

    def locate(self, t: Any, y: PyTree) -> str | None:
        return describe_blow_up(self, t, y)

    def observe(self, t: Any, y: PyTree) -> Array:
        del t
        return self.discretization.field(self.equation, y)

    def state_axes(self) -> FieldAxes:
        names = self.equation.channel_names(self.grid.ndim)
        return FieldAxes.of(names, self.grid, self.boundary)

    def prepare(self) -> "Evolution":
        law = self.equation
        if not isinstance(law, AdvectionDiffusion | Diffusion):
            return self
        D = law.diffusivity
        is_field = isinstance(D, jax.Array) and bool(D.ndim)
        # Equations of users' own may read the field.
        is_ours = type(law) in (AdvectionDiffusion, Diffusion)
        in_cells = isinstance(self.discretization, FiniteVolume)
        if not (is_field and is_ours and in_cells):
            return self
        dtype = jax.eval_shape(lambda: self.initial_field).dtype
        faces = values_on_faces(D, self.domain, dtype, law.face_mean or "harmonic")
        at = lambda run: run.equation.diffusivity  # noqa: E731
        return eqx.tree_at(at, self, tuple(faces))

    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        dtype = jax.eval_shape(lambda: self.initial_field).dtype
        return self.discretization.terms(self.equation, self.domain, dtype)

    def default_method(self) -> Method:
        return self.discretization.default_method(self.equation, self.domain)


def _check_kinds(equation: Any, grid: Any, discretization: Any):
    kinds = {
        "equation": (equation, AbstractEquation, "pde.Diffusion(0.1)"),
        "grid": (grid, Grid, "pde.Grid(64)"),
        "discretization": (
            discretization,
            AbstractDiscretization | None,
            "pde.Fourier()",
        ),
    }
    for name, (given, kind, example) in kinds.items():
        instance(name, given, kind, example)


def _discretization_of(equation: AbstractEquation) -> AbstractDiscretization:
    in_cells = isinstance(
        equation, AbstractFiniteVolumeEquation | AbstractSecondOrderInTime
    )
    return FiniteVolume() if in_cells else Fourier()


def _evaluate_initial_field(
    initial: Any, equation: AbstractEquation, grid: Grid
) -> Array:
    channels = equation.channels(grid.ndim)
    field = _evaluate_initial(initial, channels, grid)
    if field.shape == grid.shape and channels == 1:
        field = field[None]
    if field.shape != (channels, *grid.shape):
        raise ValueError(
            f"initial must have shape {(channels, *grid.shape)}, the channels of the "
            f"equation and the grid, got {field.shape}{_channels_of(equation, field)}"
        )
    return field


def _check_finite(field: Array):
    check_precision("initial", field)
    if not is_traced(field) and not np.all(np.isfinite(np.asarray(field))):
        bad = np.argwhere(~np.isfinite(np.asarray(field)))
        raise ValueError(
            f"initial must be finite, got {len(bad)} values that are infinite or not a "
            f"number, the first at {tuple(bad[0].tolist())} of (channel, *grid)"
        )


def _evaluate_initial(initial: Any, channels: int, grid: Grid) -> Array:
    """The field given, or what a function returns in the centers of cells."""
    if not callable(initial):
        return as_floating("initial", initial)
    function_of("initial", initial, ("x",))
    x = grid.centers
    with explain_tracer_errors("initial"):
        found = initial(x)
    field, shape = checked_return("initial", found, x.dtype), (channels, *grid.shape)
    if field.shape == (channels,):
        field = field.reshape(-1, *[1] * grid.ndim)
    one = field.shape == (1, *grid.shape) and channels > 1
    fits = field.ndim in (0, len(shape)) and not one
    if fits and all(a in (1, n) for a, n in zip(field.shape, shape, strict=False)):
        return jnp.broadcast_to(field, shape)
    return field


def _has_parameters(function: Any) -> bool:
    """Whether it is a function with numbers of its own, as a module is."""
    floating = map(eqx.is_inexact_array_like, jax.tree.leaves(function))
    return callable(function) and any(floating)


def _channels_of(equation: AbstractEquation, field: Array) -> str:
    """Explain the channels, where a newcomer would expect others."""
    if isinstance(equation, AbstractSecondOrderInTime):
        return (
            "; they are the displacement and its velocity, jnp.stack([u, 0 * u]) from "
            "rest"
        )
    if isinstance(equation, NavierStokesVorticity) and len(field) == 2:
        return (
            "; the field is the vorticity of a velocity, "
            "pde.curl(velocity, pde.Domain(grid)), or take pde.NavierStokesVelocity"
        )
    words = {
        NavierStokesVelocity: "the components of a velocity, one an axis; of a "
        "vorticity pde.NavierStokesVorticity is the equation",
        Schrodinger: "the real and the imaginary part, jnp.stack([a, b])",
        Euler: "density, momentum and energy, Euler.state(density, velocity, pressure)",
        ShallowWater: "depth and momentum along each axis, jnp.stack([h, h * v])",
    }
    kind = next((k for k in words if isinstance(equation, k)), None)
    return "" if kind is None else f"; they are {words[kind]}"


def _check_solver(evolution: Evolution, solver: Any):
    """Raise `ValueError` for a solver of other dynamics, in words for fields."""
    equation, discretization = evolution.equation, evolution.discretization
    modes = isinstance(discretization, Fourier) and isinstance(
        equation, AbstractSpectralEquation
    )
    waves = isinstance(equation, AbstractSecondOrderInTime | AbstractSplitStepEquation)
    if isinstance(solver, AbstractExponentialSolver) and not modes:
        steps = "semilinear equations in Fourier space (pde.Fourier, periodic)"
    elif isinstance(solver, AbstractUnsynchronizedSolver):
        steps = "the bodies of an nbody.NBody"
    elif isinstance(solver, AbstractSplittingSolver) and not waves:
        steps = "waves, pde.Wave or pde.Schrodinger"
    else:
        return
    chosen = type(evolution._checked_default_method().solver).__name__
    raise ValueError(
        f"{type(solver).__name__} steps {steps}; got {type(equation).__name__} in "
        f"{type(discretization).__name__}(), for which method=None takes {chosen}"
    )


def describe_blow_up(evolution: Any, t: Any, y: Any) -> str:
    """A sentence on the last finite state `y`, which was at the time `t`."""
    equation = evolution.equation
    name, when = type(equation).__name__, f"t = {float(t):.4g}"
    u = evolution.observe(t, y)
    if not equation.positive_fields:
        cell = _largest_cell(np.max(np.abs(np.asarray(u)), axis=0))
        return f"{name} blew up after {when}, where it was largest in cell {cell}."
    fields = [np.asarray(field) for field in equation.positive(u)]
    pairs = zip(equation.positive_fields, fields, strict=True)
    gone = next(((n, f) for n, f in pairs if np.min(f) <= 0), None)
    if gone is not None:
        words, cell = f" of {gone[0]}", _largest_cell(-gone[1])
    else:
        # Positive in cells, and not on the faces between them.
        rate = jax.tree.leaves(evolution.terms().vf(t, y, evolution))[0]
        # A source may close over what is differentiated.
        bad = ~np.isfinite(np.asarray(jax.lax.stop_gradient(rate))).all(axis=0)
        words, cell = "", _largest_cell(bad if bad.any() else -np.min(fields, axis=0))
    if getattr(equation, "positivity_limiter", True):
        advice = "shorter steps may keep it"
    else:
        advice = "positivity_limiter=True keeps it"
    return f"{name} lost positivity{words} at {when} in cell {cell}; {advice}."


def _largest_cell(field: np.ndarray) -> int | tuple[int, ...]:
    """The cell in which a field is largest, a number on a line."""
    place = np.unravel_index(int(np.argmax(field)), field.shape)
    cell = tuple(int(i) for i in place)
    return cell[0] if len(cell) == 1 else cell
