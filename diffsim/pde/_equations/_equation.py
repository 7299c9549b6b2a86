"""`AbstractEquation` and the forms that an equation can have."""

import abc
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from ..._results import check_signs
from ..._validation import PositiveParameter
from ...simulations import AbstractSplitFlows, Method, SplitFlows
from .._domain import Domain
from .._fourier import FourierBasis
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
