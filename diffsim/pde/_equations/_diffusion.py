"""`Diffusion`, the heat equation, and all reaction–diffusion equations."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ... import implicit
from ..._types import Numbers, PyTree
from ..._validation import PositiveParameter, one_of
from ...integrators import KenCarp5
from ...simulations import Method
from .._domain import Domain
from .._elliptic import (
    PreconditionedSolver,
    default_solver,
    helmholtz_operator,
    solve_elliptic,
)
from .._finite_volume import (
    FACE_MEANS,
    diffusion_flux_divergence,
    diffusive_courant_rate,
    shapes_on_faces,
)
from .._fourier import FourierBasis
from ._equation import (
    AbstractIMEXEquation,
    AbstractSpectralEquation,
    add_source,
    diffusivity_coefficient,
    diffusivity_on_faces,
    optional_coefficient,
    positive_diffusivities,
)


class AbstractReactionDiffusion(AbstractIMEXEquation, AbstractSpectralEquation):
    r"""Reaction–diffusion equations:

    $$\partial_t u_c = \nabla\cdot(D_c\,\nabla u_c) + R_c(t, x, u)$$

    In finite volumes with any boundary and any D, and in Fourier space where every D is
    a number. Diffusion is the stiff part in both; steps are explicit in the reaction.
    Subclasses say `diffusivities`, `reaction` and `nonlinearity_degree`, and may say a
    `face_mean` as of `Diffusion`.
    """

    face_mean: ClassVar[str | None] = None

    @property
    @abc.abstractmethod
    def diffusivities(self) -> tuple[Any, ...]:
        """D of every channel, each of the kinds that `Diffusion` takes."""

    @abc.abstractmethod
    def reaction(self, t: Any, x: Array, u: Array) -> Array | None:
        """R, shape (channel, *grid), or None if there is none."""

    def channels(self, ndim: int) -> int:
        del ndim
        return len(self.diffusivities)

    def explicit(self, t: Any, u: Array, domain: Domain) -> Array | None:
        return _evaluate_reaction(self, t, domain.grid.centers.astype(u.dtype), u)

    def implicit(self, t: Any, u: Array, domain: Domain) -> Array:
        channels = _diffusivities_on_faces(self, t, u, domain)
        if len(channels) == 1:
            return diffusion_flux_divergence(u, channels[0], domain, t)
        faces, shapes = [], shapes_on_faces(domain.grid.shape)
        for shape, each in zip(shapes, zip(*channels, strict=True), strict=True):
            shape = shape if any(k.ndim for k in each) else (1,) * len(shape)
            faces.append(jnp.stack([jnp.broadcast_to(k, shape) for k in each]))
        return diffusion_flux_divergence(u, faces, domain, t)

    def solve(
        self, t: Any, rhs: Array, length: Array, guess: Array, domain: Domain
    ) -> Array:
        length = length.astype(rhs.dtype)
        if domain.is_nonlinear or any(map(callable, self.diffusivities)):
            return _solve_nonlinear(self, t, rhs, length, guess, domain)
        nothing = jnp.zeros_like(rhs)
        b = rhs + length * self.implicit(t, nothing, domain)
        channels = _diffusivities_on_faces(self, t, nothing, domain)
        solutions = []
        for k, right, near in zip(channels, b, guess, strict=True):
            system = _implicit_system(length, k, domain)
            solver = default_solver(system, _stage_tolerance(rhs, 1))
            solution, _ = solve_elliptic(system, right, solver=solver, guess=near)
            solutions.append(solution)
        return jnp.stack(solutions)

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        reaction = self.explicit(t, u, domain)
        diffusion = self.implicit(t, u, domain)
        return diffusion if reaction is None else diffusion + reaction

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        channels = _diffusivities_on_faces(self, t, u, domain)
        by_axis = zip(*channels, strict=True)
        fastest = [jnp.stack([jnp.max(k) for k in each]) for each in by_axis]
        return diffusive_courant_rate(fastest, domain, u.dtype)

    def default_method(self, domain: Domain) -> Method:
        del domain
        return Method(KenCarp5())

    def symbol(self, modes: FourierBasis) -> Array:
        for D in self.diffusivities:
            if callable(D) or isinstance(D, tuple) or jnp.ndim(D):
                raise ValueError(
                    f"{type(self).__name__} in Fourier space needs diffusivities that "
                    f"are numbers, got a {'function' if callable(D) else 'field'}; "
                    "take discretization=pde.FiniteVolume()"
                )
        return -jnp.stack([D * modes.wavenumber_squared for D in self.diffusivities])

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        rate = _evaluate_reaction(self, t, modes.grid.centers, modes.ifft(z))
        return jnp.zeros_like(z) if rate is None else modes.fft(rate)


def _evaluate_reaction(
    equation: AbstractReactionDiffusion, t: Any, x: Array, u: Array
) -> Array | None:
    rate = equation.reaction(t, x, u)
    if rate is not None and jnp.shape(rate) != u.shape:
        raise ValueError(
            f"reaction of {type(equation).__name__} must return the shape of u, "
            f"{u.shape}, one field a channel, got {jnp.shape(rate)}; jnp.stack joins "
            "them"
        )
    return rate


def _implicit_system(length: Array, k: Sequence[Array], domain: Domain):
    """u − length ∇·(k∇u), with k on the faces across each axis."""
    faces = tuple(length * face for face in k)
    return helmholtz_operator(domain, faces, 1.0, length.dtype, regular=True)


def _solve_nonlinear(
    equation: AbstractReactionDiffusion,
    t: Any,
    rhs: Array,
    length: Array,
    guess: Array,
    domain: Domain,
) -> PyTree:
    """Solve by Newton's method, preconditioned by D of the guess; NaN if it fails."""

    def residual(u, parameters):
        t, length, rhs, domain = parameters
        return u - length * equation.implicit(t, u, domain) - rhs

    line = domain.grid.ndim == 1 and not domain.periodic(0) and len(rhs) == 1
    if line:
        is_short = domain.grid.shape[0] < 3
        solver = None
        linear_solver = implicit.Dense() if is_short else implicit.Tridiagonal()
    else:
        channels = _diffusivities_on_faces(equation, t, guess, domain)
        tangents = zip(channels, domain.linearized(guess, t), strict=True)
        systems = [_implicit_system(length, k, domain) for k, domain in tangents]
        linear_solver = implicit.Krylov(
            implicit.GMRES(), preconditioner=PreconditionedSolver(systems)
        )
        left = _stage_tolerance(rhs, 5)
        solver = implicit.NewtonKrylov(left, left, linear_solver=linear_solver)
    return implicit.root(
        residual,
        guess,
        (t, length, rhs, domain),
        solver=solver,
        adjoint=implicit.ImplicitAdjoint(linear_solver),
        throw=False,
    )


def _stage_tolerance(rhs: Array, roundings: int) -> float:
    """Tolerance of a stage; steps add the errors up. In float32 so many roundings."""
    return max(roundings * float(jnp.finfo(rhs.dtype).eps), 2e-12)


def _diffusivities_on_faces(
    equation: AbstractReactionDiffusion, t: Any, u: Array, domain: Domain
) -> list[list[Array]]:
    pairs, mean = zip(equation.diffusivities, u, strict=True), equation.face_mean
    return [diffusivity_on_faces(D, mean, t, a, domain) for D, a in pairs]


class Diffusion(AbstractReactionDiffusion):
    r"""Heat equation, $\partial_t u = \nabla\cdot(D\,\nabla u) + s$.

    ```python
    rod = pde.Grid(50)
    x = rod.centers[0]
    D = jnp.where(x < 0.5, 0.1, 0.3)  # two metals, and a flame below the first
    law = pde.Diffusion(D, source=lambda t, x, u: jnp.exp(-50 * (x[0] - 0.3) ** 2))
    hot = pde.Evolution(law, jnp.zeros(50), rod, pde.Dirichlet(0.0))
    ds.simulate(hot, [0.5, 1.0])["u"]

    melting = pde.Diffusion(lambda t, x, u: 0.1 + 0.2 * u**2)  # nonlinear
    ```

    **Arguments**

    - `diffusivity`: D, length² / time: a number, a field of the shape of the grid, a
        tuple of fields on the faces across each axis, or a function `D(t, x, u)` of
        fields, x of shape (axis, *grid) and u (*grid), for a nonlinear one; any
        `eqx.Module` called so, such as one with a network.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`. None is
        none, and then solvers that are implicit throughout, `Kvaerno5` say, serve too.
    - `face_mean`: of D in both cells beside a face, as of `pde.diffusion`; None is
        `"harmonic"`, and `"arithmetic"` of a function that reads u.

    **Good values:** 20 cells a wavelength, whose decay is then 0.8 % slow.

    **Raises:** `ValueError` for a D that is not positive.

    **Limits:** one channel (convenience). A jump of D within a cell or at an angle to
    the faces costs one order there (convenience); in Fourier space D is a number. A D
    on a line between boundaries that looks further than the cells beside its own has
    NaN for gradients through implicit steps, which take their matrix for one of three
    bands (convenience: `Heun` and `SSPRK3` have them).
    """

    diffusivity: Any
    source: Any
    face_mean: str | None = eqx.field(static=True)

    coefficients: ClassVar[tuple[str, ...]] = ("diffusivity", "source")

    def __init__(
        self,
        diffusivity: Numbers | Any,
        source: Numbers | Any = None,
        *,
        face_mean: str | None = None,
    ):
        self.diffusivity = diffusivity_coefficient("diffusivity", diffusivity)
        self.source = optional_coefficient("source", source)
        self.face_mean = one_of("face_mean", face_mean, (None, *FACE_MEANS))

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivity", self.diffusivity)

    @property
    def nonlinearity_degree(self) -> int:
        return 1

    @property
    def diffusivities(self) -> tuple[Any, ...]:
        return (self.diffusivity,)

    def reaction(self, t: Any, x: Array, u: Array) -> Array | None:
        if self.source is None:
            return None
        return add_source(jnp.zeros_like(u), self.source, t, x, u)
