"""The plate by hand: its walls in eight lines, the same solver in Diffrax's loop."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from diffsim.integrators import KenCarp5
from diffsim.simulations import IMEXTerm

from . import problems


_TOLERANCE, _MAX_STEPS = 1e-8, 2**16
#: States that the default adjoint of diffsim keeps of such a run.
_CHECKPOINTS = 90

_N = problems.PLATE_CELLS
_DX = 1 / _N
_ALPHA, _BETA, _GIVEN = problems.COOLED

#: A ghost cell beyond a wall is a part of the last cell, and a number.
_COOLED = (
    (_BETA / _DX - _ALPHA / 2) / (_ALPHA / 2 + _BETA / _DX),
    _GIVEN / (_ALPHA / 2 + _BETA / _DX),
)
_GHOSTS_X = (-1.0, 2 * problems.WARM), (1.0, _DX * problems.INSULATED)
_GHOSTS_Y = _COOLED, _COOLED


def heat() -> Any:
    """The temperature of the plate."""
    return _heat(_start(), problems.DIFFUSIVITY)


def heat_gradient() -> Any:
    """Of the sum of its squares, in the first temperature and the diffusivity."""
    return _gradient(_start(), problems.DIFFUSIVITY)


def _start():
    x = (jnp.arange(_N) + 0.5) * _DX
    x, y = jnp.meshgrid(x, x, indexing="ij")
    return jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


def _temperature(start, diffusivity):
    solution = diffrax.diffeqsolve(
        IMEXTerm(_rate, _solve),
        KenCarp5(),
        0.0,
        problems.PLATE_TIMES[-1],
        None,
        start,
        diffusivity,
        saveat=diffrax.SaveAt(ts=jnp.asarray(problems.PLATE_TIMES)),
        stepsize_controller=diffrax.ClipStepSizeController(
            diffrax.PIDController(rtol=_TOLERANCE, atol=_TOLERANCE),
            step_ts=jnp.asarray(problems.PLATE_TIMES),
        ),
        adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=_CHECKPOINTS),
        max_steps=_MAX_STEPS,
    )
    assert solution.ys is not None
    return solution.ys[:, None]


def _rate(t, u, diffusivity):
    return diffusivity * _laplacian(u)


def _laplacian(u):
    (a, b), (c, d) = _GHOSTS_X
    x = jnp.concatenate([a * u[:1] + b, u, c * u[-1:] + d])
    (a, b), (c, d) = _GHOSTS_Y
    y = jnp.concatenate([a * u[:, :1] + b, u, c * u[:, -1:] + d], 1)
    return (jnp.diff(x, 2, axis=0) + jnp.diff(y, 2, axis=1)) / _DX**2


def _solve(t, rhs, length, guess, diffusivity):
    """The u with u − length D ∇²u = rhs, by the eigenvectors along either axis."""
    scale = length * diffusivity
    rhs = rhs + scale * _laplacian(jnp.zeros_like(rhs))
    waves = _X.T @ rhs @ _Y / (1 - scale * _EIGENVALUES)
    return _X @ waves @ _Y.T


def _eigenvectors(ghosts):
    """Of second differences between two walls."""
    matrix = np.diag(np.full(_N, -2.0))
    matrix += np.diag(np.ones(_N - 1), 1) + np.diag(np.ones(_N - 1), -1)
    matrix[0, 0] += ghosts[0][0]
    matrix[-1, -1] += ghosts[1][0]
    return np.linalg.eigh(matrix / _DX**2)


(_ALONG_X, _X), (_ALONG_Y, _Y) = _eigenvectors(_GHOSTS_X), _eigenvectors(_GHOSTS_Y)
_EIGENVALUES = _ALONG_X[:, None] + _ALONG_Y

_heat = jax.jit(_temperature)


@jax.jit
def _gradient(start, diffusivity):
    def loss(start, diffusivity):
        return jnp.sum(_temperature(start, diffusivity) ** 2)

    return jax.grad(loss, (0, 1))(start, diffusivity)
