"""The Schrödinger equation, linear or not."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import real_times
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating
from ...simulations import SplitFlows
from .._domain import Domain
from .._fourier import FourierBasis
from .._grid import Grid
from ._equation import AbstractSplitStepEquation, coefficient, evaluate_coefficient


class Schrodinger(AbstractSplitStepEquation):
    r"""Schrödinger equation, linear or not, periodic:

    $$i\hbar\,\partial_t\psi = -\tfrac{\hbar^2}{2m}\nabla^2\psi + V\psi
      + g|\psi|^2\psi$$

    Two channels, the real and the imaginary part of ψ.

    ```python
    grid = pde.Grid(64, -8.0, 8.0)
    x = grid.centers[0]
    psi = jnp.exp(-((x - 1.0) ** 2) / 2 + 2j * x)  # at 1, of momentum 2
    start = jnp.stack([psi.real, psi.imag])
    well = pde.Evolution(pde.Schrodinger(x**2 / 2), start, grid)
    run = ds.simulate(well, 1.0, ds.Method(integrators.Yoshida4(), 0.01))
    density = jnp.sum(run.states**2, axis=0)
    jnp.sum(x * density) / jnp.sum(density)  # cos 1 + 2 sin 1
    ```

    The kinetic part turns the phase of every Fourier mode, the rest that of every
    point: `Leapfrog` is the split-step method, `Yoshida4` and the others compose it.
    All keep the norm to machine precision and the `energy` within bounds, and can be
    run backwards, so that `Reversible` serves. With g it is the equation of Gross and
    Pitaevskii, and of pulses in fibers.

    **Arguments**

    - `potential`: V, energy: a number, a field of the shape of the grid or a function
        `V(t, x)`, x of shape (axis, *grid); any `eqx.Module`.
    - `nonlinearity`: g, energy / |ψ|²; negative ones attract.
    - `hbar`: ħ, and `mass`: m.

    **Good values:** two cells a wavelength of the highest momentum and a few more;
    `Yoshida4` or `KahanLi6` with steps of 0.1 ħ over the energies that ψ meets. With g,
    steps up to $2m\Delta x^2/\pi\hbar$: beyond them plane waves are unstable, which the
    equation does not know.

    **Raises:** `ValueError` for ħ or m that is not positive.

    **Limits:** V is real (convenience). Products of the cubic part are not cut: they
    alias, and the norm stays (convenience).
    """

    potential: Any
    nonlinearity: Array
    hbar: Array
    mass: Array

    references: ClassVar[tuple[str, ...]] = (
        "10.1016/0021-9991(82)90091-2",
        "10.1137/0723033",
    )
    coefficients: ClassVar[tuple[str, ...]] = ("potential",)

    def __init__(
        self,
        potential: Numbers | Any = 0.0,
        nonlinearity: Numbers = 0.0,
        *,
        hbar: Numbers = 1.0,
        mass: Numbers = 1.0,
    ):
        self.potential = coefficient("potential", potential, ("t", "x"))
        self.nonlinearity = as_floating("nonlinearity", nonlinearity)
        self.hbar = as_floating("hbar", hbar)
        self.mass = as_floating("mass", mass)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        numbers = {"hbar": self.hbar, "mass": self.mass}
        return tuple(PositiveParameter(*number) for number in numbers.items())

    def channels(self, ndim: int) -> int:
        del ndim
        return 2

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        del ndim
        return "psi_real", "psi_imag"

    def flows(self, modes: FourierBasis) -> SplitFlows:
        # The part on the grid comes first: it costs less, and a step has one more.
        on_grid = eqx.Partial(_rotate_on_grid, self, modes.grid)
        return SplitFlows(on_grid, eqx.Partial(_rotate_in_fourier_space, self, modes))

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        modes = FourierBasis(domain.grid)
        curved = modes.ifft(modes.laplacian(modes.fft(u)))
        moving = -(self.hbar**2) / (2 * self.mass) * jnp.sum(u * curved, axis=0)
        density = jnp.sum(u**2, axis=0)
        potential = _potential(self, t, domain.grid)
        return moving + (potential + self.nonlinearity / 2 * density) * density


def _rotate_on_grid(
    equation: Schrodinger, grid: Grid, t: Any, y: Array, length: Array, args: Any
) -> Array:
    """Rotate phases by V + g|ψ|², of which the second does not change meanwhile."""
    del args
    energy = _potential(equation, t, grid)
    density = jnp.sum(y**2, axis=0, keepdims=True)
    energy = energy + equation.nonlinearity * density
    return _rotate_phase(y, length / equation.hbar * energy)


def _potential(equation: Schrodinger, t: Any, grid: Grid) -> Array:
    energy = evaluate_coefficient("potential", equation.potential, t, grid.centers)
    if energy.ndim > grid.ndim:
        raise ValueError(
            f"potential must be a number or of the shape of the grid, {grid.shape}, "
            f"got shape {energy.shape}; x has a leading axis, so write x[0]**2 for x**2"
        )
    return energy


def _rotate_in_fourier_space(
    equation: Schrodinger,
    modes: FourierBasis,
    t: Any,
    y: Array,
    length: Array,
    args: Any,
) -> Array:
    """Rotate phases by ħk²/2m, the same for k and −k: both real fields turn as ψ."""
    del t, args
    angle = equation.hbar * length / (2 * equation.mass) * modes.wavenumber_squared
    return modes.ifft(_rotate_phase(modes.fft(y), angle))


def _rotate_phase(y: Array, angle: Array) -> Array:
    """ψ exp(−i angle), of its real and its imaginary part."""
    real, imaginary = jax.lax.split(y, (1, 1))
    c, s = jnp.cos(angle), jnp.sin(angle)
    turned = (
        real_times(c, real) + real_times(s, imaginary),
        real_times(c, imaginary) - real_times(s, real),
    )
    return jnp.concatenate(turned)
