"""Residuals of steady states and their preconditioners."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._validation import positive
from .._discretizations import FiniteVolume
from .._equations import AbstractFiniteVolumeEquation
from .._evolution import Evolution
from .._incompressible import (
    Faces,
    IncompressibleFlow,
    leray_project,
    project_out_gradient,
)
from ._diffusion_preconditioner import DiffusionPreconditioner
from ._jacobian_preconditioner import AbstractJacobianPreconditioner
from ._stokes_preconditioner import StokesPreconditioner


def residual_of(simulation: Any) -> tuple[Callable, AbstractJacobianPreconditioner]:
    """Return `rate(y, simulation)` and the preconditioner of its Jacobian."""
    if isinstance(simulation, Evolution):
        return _finite_volume_residual(simulation)
    return _flow_residual(simulation)


def check_simulation(simulation: Any):
    if isinstance(simulation, IncompressibleFlow):
        hint = "without friction no flow comes to rest"
        positive("viscosity of a steady flow", simulation.viscosity, hint)
        return
    if not isinstance(simulation, Evolution):
        raise ValueError(
            f"simulation must be a pde.Evolution or a pde.IncompressibleFlow, got "
            f"{simulation!r:.60}"
        )
    name = type(simulation.equation).__name__
    if not isinstance(simulation.equation, AbstractFiniteVolumeEquation):
        raise ValueError(
            f"{name} has no finite volume form, which a steady state needs; "
            "steady_state takes equations that are AbstractFiniteVolumeEquation, such "
            "as pde.Diffusion(D, source)"
        )
    if not isinstance(simulation.discretization, FiniteVolume):
        raise ValueError(
            f"{name} must be in finite volumes for a steady state, got discretization="
            f"{type(simulation.discretization).__name__}(); omit discretization"
        )


def _finite_volume_residual(
    evolution: Evolution,
) -> tuple[Callable, AbstractJacobianPreconditioner]:
    def rate(u: Array, evolution: Any) -> Array:
        t = jnp.asarray(evolution.t0, u.dtype)
        return evolution.equation.rate(t, u, evolution.domain)

    return rate, DiffusionPreconditioner(evolution.domain, evolution.t0)


def _flow_residual(
    flow: IncompressibleFlow,
) -> tuple[Callable, AbstractJacobianPreconditioner]:
    def rate(u: Faces, flow: Any) -> Faces:
        forces, t = flow._forces, flow._time(flow.t0)
        near = leray_project(forces.space, u, t)
        # Walls stay as they are. What diverges goes.
        found = project_out_gradient(forces.space, forces.total(t, near), None)[0]
        return tuple(a + b - c for a, b, c in zip(found, near, u, strict=True))

    forces = flow._forces
    return rate, StokesPreconditioner.of(forces.space, forces.viscosity)
