"""Fits with some parameters held, and where the loss along a line has risen so far."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from ._fit_loop import run_fit_loop
from ._fit_options import FitOptions
from ._levenberg_marquardt import LevenbergMarquardt
from ._posterior import Posterior


#: Doublings of the first step by which a rise is looked for.
_MOST_DOUBLINGS = 40
_MOST_STEPS = 60


class Constrained:
    """The loss minimized over all parameters but a few, which are held.

    They are held by bounds that coincide, so that nothing is compiled but what the fit
    itself has compiled.
    """

    def __init__(self, experiment: Posterior, values: Array, scale: float):
        self.experiment = experiment
        self.best = np.asarray(coordinates(experiment, values))
        self.scale = scale
        self.solver = LevenbergMarquardt()
        self.loss = float(_loss(experiment, jnp.asarray(self.best)))
        slope = _slope(experiment, jnp.asarray(self.best))
        # A transform at the end of its range has none, a logit at 1 for instance.
        begun = _slope(experiment, experiment.parameters.z_start)
        self.slope = np.asarray(jnp.where(slope == 0, begun, slope))
        limits = experiment.parameters.limits()
        self.lower, self.upper = (np.asarray(limits[k]) for k in ("lower", "upper"))
        inside = experiment.parameters.coordinates
        #: How far a parameter can be; on a circle half a turn, a little less of which
        #: is on its own side.
        self.edges = inside.turns.around(
            jnp.asarray(self.best), tuple(limits.values()), (1 - 1e-6) / inside.scale
        )
        #: The lowest rise, and where the last fit ended, to start the next from.
        self.lowest, self.last = 0.0, self.best

    def at_edge(self, z: np.ndarray) -> np.ndarray:
        """Which coordinates are as far as they can be."""
        return np.any(np.stack(self.edges) == z, axis=0)

    def root_rise(self, held: tuple[int, ...], at: np.ndarray) -> float:
        """√(2ΔL), in units of the scale of an unknown sigma; negative below the best.

        Near the best it is the distance in standard deviations.
        """
        rise = self._rise(held, at, self.last)
        if not np.isfinite(rise):
            # The others may have no likelihood where the last fit put them.
            rise = self._rise(held, at, self.best)
        if not np.isfinite(rise):
            self.last = self.best
            return np.inf
        self.lowest = min(self.lowest, rise)
        return float(np.sign(rise) * np.sqrt(np.abs(rise)))

    def _rise(self, held: tuple[int, ...], at: np.ndarray, begin: np.ndarray) -> float:
        start = begin.copy()
        start[list(held)] = at
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[list(held)] = upper[list(held)] = at
        pinned = eqx.tree_at(
            lambda e: (e.parameters.z_lower, e.parameters.z_upper),
            self.experiment,
            (jnp.asarray(lower), jnp.asarray(upper)),
        )
        if len(held) == start.size:
            self.last = start
            loss = float(_loss(self.experiment, jnp.asarray(start)))
        else:
            ended = run_fit_loop(pinned, self.solver, jnp.asarray(start), FitOptions())
            assert ended is not None
            z, state, _ = ended
            self.last, loss = np.asarray(z), float(state.value)
        return 2 * (loss - self.loss) / self.scale**2


def crossing(
    rise: Callable[[float], float], level: float, *, first: float, limit: float
) -> tuple[float, bool]:
    """Where an increasing function reaches `level`, and whether `limit` came first.

    Of √(2ΔL), which is a straight line where the loss is a parabola, by the Illinois
    variant of regula falsi; infinite where it never rises so far. Where it ends before,
    that is a limit, too.
    """
    low, below = 0.0, -level
    high = min(first, limit)
    above = rise(high) - level
    for _ in range(_MOST_DOUBLINGS):
        if above >= 0 or high >= limit:
            break
        low, below = high, above
        high = min(2 * high, limit)
        above = rise(high) - level
    if above < 0:
        return (limit, True) if high >= limit else (np.inf, False)
    side = 0
    for _ in range(_MOST_STEPS):
        if not np.isfinite(above):
            middle = (low + high) / 2
        else:
            middle = low - below * (high - low) / (above - below)
        found = rise(middle) - level
        if abs(found) <= 1e-7 * level:
            return middle, False
        if high - low <= 1e-12 * high:
            break
        if found > 0:
            high, above = middle, found
            below = below / 2 if side > 0 else below
            side = 1
        else:
            low, below = middle, found
            above = above / 2 if side < 0 else above
            side = -1
    # Beyond is no likelihood: the range of a prediction ends here.
    return (middle, False) if np.isfinite(above) else (low, True)


def coordinates(experiment: Posterior, values: Array) -> Array:
    """The coordinates z of physical values; of the end of a range, the last before."""
    return _coordinates(experiment.parameters, values)


@fresh_jit
def _coordinates(parameters, values: Array) -> Array:
    found = parameters.coordinates.coordinates
    z, inside = found(values), found(jnp.nextafter(values, parameters.start))
    return jnp.where(jnp.isinf(z), inside, z)


@fresh_jit
def _loss(experiment: Posterior, z: Array) -> Array:
    return experiment.loss(z)


@fresh_jit
def _slope(experiment: Posterior, z: Array) -> Array:
    """The derivative of each value by its coordinate."""
    values = experiment.parameters.values
    return jax.jvp(values, (z,), (jnp.ones_like(z),))[1]
