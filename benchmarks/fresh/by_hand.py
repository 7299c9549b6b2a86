"""The same runs with Diffrax alone: written once, jitted once."""

from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from . import problems


#: Of the pair that is closest at first: its distance, its speed of free fall. A step
#: errs by a 1e-14th of them, as by the default method of `NBody`.
_LENGTH, _SPEED, _ORBIT_TOLERANCE = 1.0, 1.0004093707, 1e-14
_TOLERANCE = 1e-8
_MAX_STEPS = 2**16

_NOT_SELF = 1 - np.eye(3)[..., None]


def orbit() -> Any:
    """Positions of three bodies."""
    return _orbit(problems.MASSES)


def orbit_and_jacobian() -> Any:
    """The same with their derivatives in the masses."""
    return _orbit(problems.MASSES), _orbit_jacobian(problems.MASSES)


def _positions(masses, adjoint=None):
    def norm(error):
        x, v = (jnp.max(jnp.abs(e)) for e in error)
        return jnp.maximum(x / _LENGTH, v / _SPEED)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(_acceleration),
        diffrax.Dopri8(),
        0.0,
        problems.ORBIT_TIMES[-1],
        None,
        (jnp.asarray(problems.POSITIONS), jnp.asarray(problems.VELOCITIES)),
        masses,
        saveat=diffrax.SaveAt(ts=jnp.asarray(problems.ORBIT_TIMES)),
        stepsize_controller=diffrax.PIDController(
            rtol=0.0, atol=_ORBIT_TOLERANCE, norm=norm
        ),
        adjoint=diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        max_steps=_MAX_STEPS,
    )
    assert solution.ys is not None
    return solution.ys[0]


def _acceleration(t, y, masses):
    x, v = y
    d = x[None] - x[:, None]
    r2 = jnp.sum(d**2, -1, keepdims=True) + (1 - _NOT_SELF)
    pull = _NOT_SELF * masses[:, None] * d / (r2 * jnp.sqrt(r2))
    return v, jnp.sum(pull, 1)


_orbit = jax.jit(_positions)
_orbit_jacobian = jax.jit(
    jax.jacfwd(partial(_positions, adjoint=diffrax.ForwardMode()))
)


def ode() -> Any:
    """Both populations by Dopri5."""
    return _populations(problems.RATES, problems.POPULATIONS)


def populations(rates, start, adjoint=None) -> Any:
    """Prey and predators, year after year, for a program of one's own."""
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(_growth),
        diffrax.Dopri5(),
        0.0,
        problems.YEARS[-1],
        None,
        start,
        rates,
        saveat=diffrax.SaveAt(ts=jnp.asarray(problems.YEARS)),
        stepsize_controller=diffrax.PIDController(rtol=_TOLERANCE, atol=_TOLERANCE),
        adjoint=diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        max_steps=_MAX_STEPS,
    )
    return solution.ys


def _growth(t, y, rates):
    birth, death, gain, loss = rates
    return jnp.stack([y[0] * (birth - death * y[1]), y[1] * (gain * y[0] - loss)])


_populations = jax.jit(populations)
