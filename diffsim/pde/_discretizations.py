"""Spatial discretizations: `FiniteVolume` and `Fourier`."""

import abc
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._parameter_selection import cast
from .._types import PyTree
from .._validation import count
from ..integrators import KenCarp5
from ..simulations import IMEXTerm, Method, Semilinear
from ._domain import Domain
from ._equations import (
    AbstractEquation,
    AbstractFiniteVolumeEquation,
    AbstractIMEXEquation,
    AbstractSecondOrderInTime,
    AbstractSpectralEquation,
    AbstractSplitStepEquation,
)
from ._fourier import FourierBasis
from ._grid import Grid
from ._time_step import LinearizedModes


class AbstractDiscretization(eqx.Module):
    """Spatial discretization of an equation."""

    @abc.abstractmethod
    def check(self, equation: AbstractEquation, domain: Domain) -> None:
        """Raise `ValueError` for what it cannot represent."""

    @abc.abstractmethod
    def terms(
        self, equation: Any, domain: Domain, dtype: Any
    ) -> diffrax.AbstractTerm[Any, Any]:
        """The dynamics of fields of this type; `args` is the `Evolution`."""

    @abc.abstractmethod
    def default_method(self, equation: Any, domain: Domain) -> Method:
        """A good start for those who do not know integrators."""

    def state(
        self, equation: AbstractEquation, field: Array, domain: Domain
    ) -> PyTree[Array]:
        """State stepped in place of a field (channel, *grid); the field by default."""
        del equation, domain
        return field

    def field(self, equation: AbstractEquation, state: PyTree[Array]) -> Array:
        """The field, shape (channel, *grid), of what is stepped."""
        del equation
        return state

    def courant_rate(
        self, equation: AbstractEquation, t: Any, field: Array, domain: Domain
    ) -> Array | None:
        """Courant rate: cells that the fastest waves cross a time; None if unknown."""
        return equation.courant_rate(t, field, domain)

    def waves(
        self, equation: AbstractEquation, t: Any, field: Array, domain: Domain
    ) -> LinearizedModes | None:
        """Linearized dynamics of modes; None by default, where they are not known."""
        del equation, t, field, domain
        return None


class FiniteVolume(AbstractDiscretization):
    """Finite volumes: values at cell centers, fluxes across faces, any boundary.

    ```python
    def wave(x):
        return jnp.sin(2 * np.pi * x[0])

    law, ring, cells = pde.Diffusion(0.1), pde.Grid(32), pde.FiniteVolume()
    run = ds.simulate(pde.Evolution(law, wave, ring, discretization=cells), 0.2)
    run.states[0] / wave(ring.centers)  # 0.4552, near exp(−0.08 π²) = 0.4540
    ```

    Of the order of the operators in the equation, two where nothing else is said.
    """

    def check(self, equation: AbstractEquation, domain: Domain) -> None:
        del domain
        if not isinstance(
            equation, AbstractFiniteVolumeEquation | AbstractSecondOrderInTime
        ):
            raise ValueError(
                f"{type(equation).__name__} has no finite volume form; take "
                "discretization=pde.Fourier() on a periodic grid"
            )

    def terms(
        self, equation: Any, domain: Domain, dtype: Any
    ) -> diffrax.AbstractTerm[Any, Any]:
        if isinstance(equation, AbstractSecondOrderInTime):
            return equation.flows(domain, dtype)
        if not isinstance(equation, AbstractIMEXEquation):
            return diffrax.ODETerm(_rate)
        start = jnp.zeros(
            (equation.channels(domain.grid.ndim), *domain.grid.shape), dtype
        )
        explicit = jax.eval_shape(lambda u: equation.explicit(0.0, u, domain), start)
        return IMEXTerm(
            _implicit, _solve, explicit=None if explicit is None else _explicit
        )

    def default_method(self, equation: Any, domain: Domain) -> Method:
        return equation.default_method(domain)

    def state(
        self, equation: AbstractEquation, field: Array, domain: Domain
    ) -> PyTree[Array]:
        del domain
        if not isinstance(equation, AbstractSecondOrderInTime):
            return field
        return tuple(jax.lax.split(field, 2 * (len(field) // 2,)))

    def field(self, equation: AbstractEquation, state: PyTree[Array]) -> Array:
        second_order = isinstance(equation, AbstractSecondOrderInTime)
        return jnp.concatenate(state) if second_order else state

    def waves(
        self, equation: AbstractEquation, t: Any, field: Array, domain: Domain
    ) -> LinearizedModes | None:
        second_order = isinstance(equation, AbstractSecondOrderInTime)
        return equation.waves(t, field, domain) if second_order else None


class Fourier(AbstractDiscretization):
    r"""Fourier pseudospectral method: errors fall faster than any power of Δx.

    ```python
    def wave(x):
        return jnp.sin(2 * np.pi * x[0])

    law, ring, modes = pde.Diffusion(0.1), pde.Grid(32), pde.Fourier()
    rod = pde.Evolution(law, wave, ring, discretization=modes)
    method = ds.Method(integrators.ETDRK4(), step=0.2)
    ds.simulate(rod, 0.2, method).states[0] / wave(ring.centers)  # exp(−0.08 π²)
    ```

    The linear part of the equation is exact in every mode; products are taken on the
    grid and kept in the modes that they do not alias into, two thirds along each axis
    for products of two (Orszag 1971).

    **Arguments**

    - `degree`: the most factors of a product that is to have no error; None is that of
        the equation. 1 keeps every mode of N, aliased.

    **Good values:** twice as many cells as waves to resolve, and 1.5 times that for the
    products.

    **Limits:** periodic along every axis, coefficients that do not depend on x
    (mathematics).
    """

    degree: int | None = eqx.field(
        static=True,
        default=None,
        converter=lambda n: None if n is None else count("degree", n),
    )

    references: ClassVar[tuple[str, ...]] = (
        "10.1175/1520-0469(1971)028<1074:OTEOAI>2.0.CO;2",
    )

    def check(self, equation: AbstractEquation, domain: Domain) -> None:
        name = type(equation).__name__
        if not isinstance(
            equation, AbstractSpectralEquation | AbstractSplitStepEquation
        ):
            raise ValueError(
                f"{name} has no form in Fourier space; omit discretization, or take "
                "discretization=pde.FiniteVolume()"
            )
        if not all(map(domain.periodic, range(domain.grid.ndim))):
            raise ValueError(
                f"{name} in Fourier space is periodic, got a boundary; between walls "
                "take discretization=pde.FiniteVolume(), or pde.IncompressibleFlow"
            )
        if isinstance(equation, AbstractSpectralEquation):
            # Evaluated for what it raises, which depends on shapes alone.
            eqx.filter_eval_shape(
                lambda equation, grid: equation.symbol(FourierBasis(grid)),
                equation,
                domain.grid,
            )

    def terms(
        self, equation: Any, domain: Domain, dtype: Any
    ) -> diffrax.AbstractTerm[Any, Any]:
        equation, grid = cast((equation, domain.grid), dtype)
        modes = FourierBasis(grid)
        if isinstance(equation, AbstractSplitStepEquation):
            return equation.flows(modes)
        low = self._dealiased_modes(equation, grid)
        return Semilinear(
            equation.symbol(modes),
            eqx.Partial(_nonlinear, equation, modes, low),
            forward=modes.fft,
            backward=modes.ifft,
            projection=modes.project_real,
        )

    def state(
        self, equation: AbstractEquation, field: Array, domain: Domain
    ) -> PyTree[Array]:
        if not isinstance(equation, AbstractSpectralEquation):
            return field
        return equation.project_initial_condition(
            field, FourierBasis(cast(domain.grid, field.dtype))
        )

    def courant_rate(
        self, equation: AbstractEquation, t: Any, field: Array, domain: Domain
    ) -> Array | None:
        spectral = isinstance(equation, AbstractSpectralEquation)
        fastest = equation.max_advection_speed(t, field, domain) if spectral else None
        if fastest is not None:
            return jnp.sum(fastest / domain.grid.spacing.astype(field.dtype))
        in_cells = equation.courant_rate(t, field, domain)
        modes = self.waves(equation, t, field, domain)
        if in_cells is None or modes is None:
            return in_cells
        # Modes spread faster than differences let them.
        return jnp.max(jnp.abs(modes.symbol)) / 2

    def waves(
        self, equation: AbstractEquation, t: Any, field: Array, domain: Domain
    ) -> LinearizedModes | None:
        if not isinstance(equation, AbstractSpectralEquation):
            return None
        fastest = equation.max_advection_speed(t, field, domain)
        equation, grid = cast((equation, domain.grid), field.dtype)
        modes, low = FourierBasis(grid), self._dealiased_modes(equation, grid)
        if fastest is None:
            fastest = jnp.zeros(grid.ndim, field.dtype)
        pairs = zip(fastest, low.wavenumbers, strict=True)
        nothing = jnp.zeros(low.shape, field.dtype)
        turning = sum((v * jnp.abs(k) for v, k in pairs), start=nothing)
        return LinearizedModes(equation.symbol(modes), low.zero_pad_modes(turning))

    def default_method(self, equation: Any, domain: Domain) -> Method:
        del domain
        split_step = isinstance(equation, AbstractSplitStepEquation)
        return Method(diffrax.Dopri8() if split_step else KenCarp5())

    def _dealiased_modes(
        self, equation: AbstractSpectralEquation, grid: Grid
    ) -> FourierBasis:
        """The modes that products are kept in."""
        degree = equation.nonlinearity_degree if self.degree is None else self.degree
        modes = FourierBasis(grid)
        return modes if degree < 2 else modes.dealiased(degree)


def _rate(t, u, evolution):
    return evolution.equation.rate(t, u, evolution.domain)


def _implicit(t, u, evolution):
    return evolution.equation.implicit(t, u, evolution.domain)


def _explicit(t, u, evolution):
    return evolution.equation.explicit(t, u, evolution.domain)


def _solve(t, rhs, length, guess, evolution):
    domain = evolution.domain
    return evolution.equation.solve(t, rhs, length, guess, domain)


def _nonlinear(equation, modes, low, t, z, args):
    del args
    low_z = low.truncate_modes(z)
    rate = equation.nonlinear(t, low_z, low)
    if jnp.shape(rate) != low_z.shape or not jnp.iscomplexobj(rate):
        raise ValueError(
            f"nonlinear of {type(equation).__name__} must return a transform, complex "
            f"of shape {low_z.shape}, as modes.fft makes of a field, got "
            f"{jnp.result_type(rate)} of shape {jnp.shape(rate)}"
        )
    return low.zero_pad_modes(rate)
