"""`NBody`: bodies under forces."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._checks import as_floating
from .._types import Numbers
from ..simulations import AbstractSimulation, Method, Separable
from ._bodies import Bodies, Tracers
from ._forces import AbstractForce, Gravity, PostNewtonian
from ._state import State
from ._user_forces import reads_velocities, user_acceleration


Force = AbstractForce | Callable[..., Any]


class NBody(AbstractSimulation):
    r"""Bodies, and tracers if any, under the sum of `forces`.

    $$\dot x_i = v_i, \qquad \dot v_i = \sum_{\text{forces}} a_i(t, x, v)$$

    ```python
    system = nbody.NBody(nbody.Bodies(masses, positions, velocities))
    ds.simulate(system, times, ds.Method(integrators.Leapfrog(), step=0.01))
    ```

    **Arguments**

    - `bodies`: masses and initial conditions at `t0`.
    - `forces`: a force or a sequence of them; None is `Gravity()` with G = 1. A force
        is one of ours, or any `force(t, state) -> accelerations (body, 3)`, an Equinox
        module with parameters for instance; it may ignore `state.velocities`, and then
        symplectic solvers run it.
    - `tracers`: massless bodies; in states they follow the bodies.
    - `t0`: the epoch. A Python float is static under `eqx.filter_jit`; `jax.jit`
        traces it, and fixed steps then need `Method(max_steps=...)`.

    States are `State(positions, velocities)` with arrays of shape (body, 3).

    **Good values:** `Leapfrog` at 1/30 of the shortest period for pictures, `Yoshida6`
    or `Yoshida8` for energies, the default method where nothing is known.

    **Raises:** `ValueError` for two `Gravity` forces, or `PostNewtonian` without one
        or about a body that is not there.
    """

    bodies: Bodies
    forces: tuple[Force, ...]
    tracers: Tracers | None
    t0: float | Array

    free: ClassVar[tuple[str, ...] | None] = ("bodies",)

    def __init__(
        self,
        bodies: Bodies,
        forces: Force | Sequence[Force] | None = None,
        *,
        tracers: Tracers | None = None,
        t0: float | Numbers = 0.0,
    ):
        if not isinstance(bodies, Bodies):
            kind = type(bodies).__name__
            raise ValueError(f"bodies must be nbody.Bodies(...), got a {kind}")
        self.bodies = bodies
        self.forces = _checked_forces(forces)
        _check_central(self.forces, bodies)
        self.tracers = tracers
        self.t0 = float(t0) if isinstance(t0, float | int) else as_floating("t0", t0)

    @property
    def gravity(self) -> Gravity | None:
        """The force that holds G and the softening, if there is one."""
        return next((f for f in self.forces if isinstance(f, Gravity)), None)

    def initial_state(self):
        starts = [self.bodies] if self.tracers is None else [self.bodies, self.tracers]
        x = jnp.concatenate([start.positions for start in starts])
        v = jnp.concatenate([start.velocities for start in starts])
        return x.T, v.T

    def terms(self):
        x, _ = jax.eval_shape(self.initial_state)
        attraction = Attraction(self)
        if any(_is_velocity_dependent(force, x) for force in self.forces):
            return diffrax.ODETerm(_VectorField(attraction))
        return Separable(_drift, _Kick(attraction))

    def default_method(self):
        """Adaptive Dormand–Prince 8(7), tolerances 1e-8 of the state's scale.

        In single precision 1e-6, ten times its rounding.
        """
        scale = _smallest_scale(self)
        rtol = max(1e-8, 10 * float(jnp.finfo(scale.dtype).eps))
        controller = diffrax.PIDController(rtol=rtol, atol=rtol * scale)
        return Method(diffrax.Dopri8(), controller=controller)

    def observe(self, t, y):
        del t
        x, v = y
        return State(x.T, v.T)


class Attraction(eqx.Module):
    """The forces of a system with G m worked out, once a run and not once a step."""

    forces: tuple[Force, ...]
    gm: Array

    def __init__(self, system: NBody):
        G = 1.0 if system.gravity is None else system.gravity.G
        self.forces = system.forces
        self.gm = G * system.bodies.masses

    def __call__(self, t, x, v=None):
        """Sum of all accelerations, component first; `v` None if nothing reads it."""
        gm = self.gm.astype(x.dtype)
        return sum(_acceleration_by(force, t, x, v, gm) for force in self.forces)


class _VectorField(eqx.Module):
    attraction: Attraction

    def __call__(self, t, y, args):
        x, v = y
        return v, self.attraction(t, x, v)


class _Kick(eqx.Module):
    attraction: Attraction

    def __call__(self, t, x, args):
        return self.attraction(t, x)


def _drift(t, v, args):
    return v


def _acceleration_by(force, t, x, v, gm):
    if isinstance(force, AbstractForce):
        return force.acceleration(t, x, v, gm)
    return user_acceleration(force, t, x, v)


def _is_velocity_dependent(force, x) -> bool:
    if isinstance(force, AbstractForce):
        return force.velocity_dependent
    return reads_velocities(force, x)


def _checked_forces(forces: Any) -> tuple[Force, ...]:
    if forces is None:
        return (Gravity(),)
    forces = tuple(forces) if isinstance(forces, Sequence) else (forces,)
    if not forces:
        raise ValueError("forces must not be empty; None is Gravity() with G = 1")
    for force in forces:
        if isinstance(force, type):
            name = force.__name__
            raise ValueError(
                f"forces must hold objects, got the class {name}: {name}()"
            )
        if not callable(force) and not isinstance(force, AbstractForce):
            raise ValueError(
                f"forces must be callables force(t, state), got {type(force).__name__}"
            )
    count = sum(isinstance(force, Gravity) for force in forces)
    if count > 1:
        raise ValueError(f"forces must hold at most one Gravity, got {count}")
    if count == 0 and any(isinstance(force, PostNewtonian) for force in forces):
        raise ValueError(
            "PostNewtonian corrects Gravity and takes G from it; add Gravity to forces"
        )
    return forces


def _check_central(forces: tuple[Force, ...], bodies: Bodies):
    count = bodies.masses.size
    for force in forces:
        central = force.central if isinstance(force, PostNewtonian) else None
        # JAX would take the last body for an index beyond it.
        if central is not None and central >= count:
            raise ValueError(
                f"PostNewtonian has central={central}, and there are {count} bodies, "
                "counted from 0; take one of those, or None for all pairs"
            )


def _smallest_scale(system: NBody) -> Array:
    """The smaller of a typical length and a typical speed, free fall included."""
    x, v = system.initial_state()
    a = Attraction(system)(system.t0, x, v)
    center = x.mean(1, keepdims=True) if x.shape[1] > 1 else 0.0
    length = jnp.sqrt(jnp.mean((x - center) ** 2))
    fall = jnp.sqrt(jnp.sqrt(jnp.mean(a**2)) * length)
    speed = jnp.maximum(jnp.sqrt(jnp.mean(v**2)), fall)
    scale = jnp.minimum(length, speed)
    return jnp.where(scale > 0, scale, 1.0)
