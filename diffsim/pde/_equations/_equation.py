"""`AbstractEquation`, the forms that an equation can have, and its coefficients."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._inspection import depends_on_first
from ..._jaxpr._tracing import explain_tracer_errors
from ..._results import check_signs
from ..._validation import PositiveParameter, as_floating, checked_return
from ...simulations import AbstractSplitFlows, Method, SplitFlows
from .._boundaries import array_or_function
from .._domain import Domain
from .._finite_volume import shapes_on_faces, values_on_faces
from .._fourier import FourierBasis
from .._grid import broadcasts_to
from .._time_step import LinearizedModes


class AbstractEquation(eqx.Module):
    r"""Evolution equation $\partial_t u = F(t, u)$, u of shape (channel, *grid).

    Subclass one of these and say what it asks for; `Evolution` does the rest. What
    floats in an equation is a parameter. All say `channels`.

    - `AbstractFiniteVolumeEquation`, with any boundary: `rate`,
        `default_method`.
    - `AbstractIMEXEquation`, the same with a stiff part: `explicit`, `implicit` and
        `solve` as well.
    - `AbstractReactionDiffusion`, in finite volumes and in Fourier space:
        `diffusivities`, `reaction`, `nonlinearity_degree`.
    - `AbstractConservationLaw`, in finite volumes: see there.
    - `AbstractSpectralEquation`, in Fourier space: `nonlinearity_degree`, `symbol`,
        `nonlinear`.
    - `AbstractSecondOrderInTime`, waves in finite volumes: `flows`, `default_method`.
    - `AbstractSplitStepEquation`, of parts that are solved exactly: `flows`.
    """

    @abc.abstractmethod
    def channels(self, ndim: int) -> int:
        """Number of fields in this many dimensions.

        **Raises:** `ValueError` if it has no form in so many.
        """

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        """Names of these fields, for tables and pictures: u, or u0, u1 and so on."""
        count = self.channels(ndim)
        return ("u",) if count == 1 else tuple(f"u{i}" for i in range(count))

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        """Coefficients that must be positive; none by default.

        Those that are not raise where an equation is made, and end a run of one with
        `RESULTS.invalid_parameter`.
        """
        return ()

    #: Names of its numbers, fields or functions of x, whose shapes `Evolution` checks:
    #: of a source with or without the channels, of others that of the grid.
    coefficients: ClassVar[tuple[str, ...]] = ()

    #: Names of what `positive` returns.
    positive_fields: ClassVar[tuple[str, ...]] = ()

    def positive(self, u: Array) -> tuple[Array, ...]:
        """Return fields of u that are physical only above zero; none by default.

        A run that loses them is `RESULTS.positivity_lost`.
        """
        del u
        return ()

    def __check_init__(self) -> None:
        check_signs(self.positive_parameters())

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array | None:
        """Courant rate for `CFL`: cells that waves cross a time, the sum over axes.

        With 2 D/Δx² of every axis for diffusion. None where explicit steps are not
        the ones to take, and by default.
        """
        del t, u, domain
        return None

    def energy(self, t: Any, u: Array, domain: Domain) -> Array | None:
        """Energy a volume in every cell, shape (*grid), for `pde.energy`.

        None where there is none to speak of, and by default.
        """
        del t, u, domain
        return None


class AbstractFiniteVolumeEquation(AbstractEquation):
    """Equation in finite volumes, with any boundary."""

    @abc.abstractmethod
    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        """F(t, u), shape (channel, *grid)."""

    @abc.abstractmethod
    def default_method(self, domain: Domain) -> Method:
        """A good start for those who do not know integrators."""

    def check(self, u: Array, domain: Domain) -> None:
        """Raise `ValueError` for an initial field that it cannot evolve."""
        del u, domain


class AbstractIMEXEquation(AbstractFiniteVolumeEquation):
    """Equation in finite volumes with a stiff part that it knows how to solve for.

    Solvers with implicit stages step the two parts each in its way. `rate` is their
    sum.
    """

    @abc.abstractmethod
    def explicit(self, t: Any, u: Array, domain: Domain) -> Array | None:
        """The part that is not stiff, shape (channel, *grid); None if there is none."""

    @abc.abstractmethod
    def implicit(self, t: Any, u: Array, domain: Domain) -> Array:
        """The stiff part."""

    @abc.abstractmethod
    def solve(
        self, t: Any, rhs: Array, length: Array, guess: Array, domain: Domain
    ) -> Array:
        """Solve u − length · implicit(t, u) = rhs, as `simulations.IMEXTerm` asks."""


class AbstractSecondOrderInTime(AbstractEquation):
    r"""Equation for $\partial_t^2 u$ in finite volumes, with any boundary of u.

    Its channels are u and then $\partial_t u$. Steps see them as a pair, positions and
    velocities, so that `Leapfrog` and its compositions serve.
    """

    @abc.abstractmethod
    def flows(self, domain: Domain, dtype: Any) -> AbstractSplitFlows:
        """The dynamics of (u, ∂u/∂t), each of shape (channel, *grid) and of `dtype`.

        `simulations.Separable` where the second rate does not depend on ∂u/∂t.
        """

    def waves(self, t: Any, u: Array, domain: Domain) -> LinearizedModes | None:
        """Linearized dynamics of modes, to warn of explicit steps that are too long.

        None where that is not known, and by default.
        """
        del t, u, domain
        return None

    @abc.abstractmethod
    def default_method(self, domain: Domain) -> Method:
        """A good start for those who do not know integrators."""


class AbstractSpectralEquation(AbstractEquation):
    r"""Equation in Fourier space,
    $\partial_t \hat u = L\,\hat u + \hat N(t, \hat u)$, on periodic grids.

    L is the stiff part; it multiplies every mode of its own. N is evaluated for the
    modes in which products of fields have no error, and steps are explicit in it.
    """

    @property
    @abc.abstractmethod
    def nonlinearity_degree(self) -> int:
        """The most factors of one product in N, which decides how many modes it has."""

    @abc.abstractmethod
    def symbol(self, modes: FourierBasis) -> Array:
        """L, of a shape that broadcasts to (channel, *modes)."""

    @abc.abstractmethod
    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        """N̂ of the transform z, shape (channel, *modes)."""

    def max_advection_speed(self, t: Any, u: Array, domain: Domain) -> Array | None:
        """Speeds |v_a| at which N carries a field where it crosses most cells a time.

        Shape (axis,), for `CFL` and to warn of steps that are too long. None where N
        carries nothing, and by default.
        """
        del t, u, domain
        return None

    def project_initial_condition(self, u: Array, modes: FourierBasis) -> Array:
        """The part of an initial field that it is for; all of it by default."""
        del modes
        return u


class AbstractSplitStepEquation(AbstractEquation):
    """Equation of two parts that are solved exactly, on the grid and in Fourier space.

    On periodic grids. Steps are those of `Leapfrog` and its compositions.
    """

    @abc.abstractmethod
    def flows(self, modes: FourierBasis) -> SplitFlows:
        """Exact flows of either part, for states of shape (channel, *grid)."""


#: Arguments of functions: the time, the places (axis, *grid), and the field.
_ARGUMENTS = ("t", "x", "u")


def coefficient(
    name: str, value: Any, arguments: tuple[str, ...] = _ARGUMENTS
) -> Array | Callable:
    return array_or_function(name, value, arguments)


def optional_coefficient(
    name: str, value: Any, arguments: tuple[str, ...] = _ARGUMENTS
) -> Array | Callable | None:
    return None if value is None else coefficient(name, value, arguments)


def diffusivity_coefficient(
    name: str, value: Any
) -> Array | tuple[Array, ...] | Callable:
    """Validate a number, a field, a tuple of fields on faces, or a function."""
    if isinstance(value, tuple) and any(map(jnp.ndim, value)):
        return tuple(as_floating(name, face) for face in value)
    return coefficient(name, value)


def diffusivity_on_faces(
    diffusivity: Any, face_mean: str | None, t: Any, u: Array, domain: Domain
) -> list[Array]:
    """The diffusivity of a channel u on the faces across each axis.

    **Arguments:** `face_mean`: None is the harmonic one, and the arithmetic one of a
    function that reads u.
    """
    if isinstance(diffusivity, tuple):
        return values_on_faces(diffusivity, domain, u.dtype)
    x = domain.grid.centers.astype(u.dtype)
    name = "the diffusivity of a channel"

    def evaluate(u):
        return evaluate_coefficient(name, diffusivity, t, x, u)

    k = evaluate(u)
    if k.ndim > domain.grid.ndim:
        raise ValueError(
            f"{name} must be a number or a field of the shape of the grid, "
            f"{domain.grid.shape}, got shape {k.shape}"
        )
    if face_mean is None and k.ndim:
        reads_u = callable(diffusivity) and depends_on_first(evaluate, u)
        face_mean = "arithmetic" if reads_u else "harmonic"
    return values_on_faces(k, domain, u.dtype, face_mean or "harmonic")


def positive_diffusivities(
    name: str, value: Any, *, zero: bool = False
) -> tuple[PositiveParameter, ...]:
    """Signs of a diffusivity, one for each axis of a tuple; `zero` if it may vanish."""
    hint = "negative ones make a field rougher without bound"
    if not zero:
        hint = f"of zero nothing diffuses, and {hint}"
    fields = value if isinstance(value, tuple) else (value,)
    return tuple(PositiveParameter(name, field, zero, hint) for field in fields)


def check_coefficients(equation: Any, channels: int, grid: tuple[int, ...]):
    """Raise `ValueError` for those that do not fit a grid of this shape."""
    for name in equation.coefficients:
        value = getattr(equation, name)
        fields = value if isinstance(value, tuple) else (value,)
        shapes = [jnp.shape(a) for a in fields if a is not None and not callable(a)]
        if isinstance(value, tuple) and shapes == shapes_on_faces(grid):
            continue
        leading = (channels,) if name in ("source", "forcing") else ()
        for shape in shapes:
            if shape and not _has_grid_last(shape, (*leading, *grid), len(grid)):
                others = f"{channels} channels or none" if leading else "nothing"
                raise ValueError(
                    f"{name} must be a number or have the grid as its last axes, "
                    f"{grid}, got shape {shape}; before those axes there are {others}"
                )


def _has_grid_last(shape: tuple[int, ...], target: tuple[int, ...], ndim: int) -> bool:
    return len(shape) >= ndim and broadcasts_to(shape, target)


def add_source(rate: Array, source: Any, t: Any, x: Array, u: Array) -> Array:
    """Add a source to a rate, a function of (t, x, u) for instance.

    Of an equation for one channel the source is given the field alone.
    """
    if source is None:
        return rate
    field = u[0] if len(u) == 1 else u
    values = evaluate_coefficient("source", source, t, x.astype(u.dtype), field)
    if not broadcasts_to(values.shape, rate.shape):
        raise ValueError(
            f"source must be a number, or of shape {rate.shape[1:]} or {rate.shape}, "
            f"the grid and the channels before it, got shape {values.shape}"
        )
    return rate + values


def source_transform(source: Any, t: Any, z: Array, modes: FourierBasis) -> Array:
    """Evaluate a source for the field of z, and return its transform."""
    field = modes.ifft(z)
    return modes.fft(
        add_source(jnp.zeros_like(field), source, t, modes.grid.centers, field)
    )


def add_source_transform(
    rate: Array, source: Any, t: Any, z: Array, modes: FourierBasis
) -> Array:
    return rate if source is None else rate + source_transform(source, t, z, modes)


def evaluate_coefficient(
    name: str, value: Any, t: Any, x: Array, *fields: Array
) -> Array:
    """Evaluate a coefficient at t, x and fields, in the type of x."""
    if callable(value):
        with explain_tracer_errors(name):
            value = value(t, x, *fields)
    return coefficient_values(name, value, x)


def coefficient_values(name: str, value: Any, x: Array) -> Array:
    """Convert numbers or fields to the type of x; refuse those of another grid."""
    values, grid = checked_return(name, value, x.dtype), x.shape[1:]
    last = values.shape[-len(grid) :]
    if values.ndim and not _has_grid_last(last, grid, len(grid)):
        raise ValueError(
            f"{name} must be a number or have the grid as its last axes, {grid}, got "
            f"shape {values.shape}"
        )
    return values
