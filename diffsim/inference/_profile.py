"""`Profile`: the likelihood along one parameter, with all others fitted anew."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._extras import pictures
from .._jit._fresh_jit import fresh_jit
from .._parameter_selection import one_name
from .._text_table import Block, text_representation
from .._validation import positive
from ._fit_loop import FitOptions, run_fit_loop
from ._levenberg_marquardt import LevenbergMarquardt
from ._posterior import Posterior


if TYPE_CHECKING:
    import matplotlib.axes


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
        limits = experiment.parameters.limits
        self.lower, self.upper = map(np.asarray, limits)
        inside = experiment.parameters.coordinates
        #: How far a parameter can be; on a circle half a turn, a little less of which
        #: is on its own side.
        self.edges = inside.turns.around(
            jnp.asarray(self.best), limits, (1 - 1e-6) / inside.scale
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


class Profile(eqx.Module):
    r"""The profile likelihood of a parameter, and its interval.

    $$2\,\Delta L(x) = 2\,\Big[\min_{\theta:\,\theta_i = x} L - L_{\min}\Big] = n^2$$

    at both ends of the interval of n standard deviations, as MINOS of Minuit has it. It
    is the same interval under any change of variables.

    ```python
    t = jnp.linspace(0.0, 3.0, 12)
    scatter = 0.3 * jax.random.normal(jax.random.key(0), t.shape)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    start, noise = {"height": 1.0, "rate": 1.0}, inference.Gaussian(0.3)
    data = decay({"height": 2.0, "rate": 0.7}) + scatter
    fit = ds.fit(decay, start, data, noise=noise)
    found = fit.profile("rate")  # an inference.Profile
    found.errors  # (−0.14, 0.17)
    ```

    **Fields**

    - `name`, `best`, `stderr`, `level`: the parameter, its best value and symmetric
        error bar, and n.
    - `lower`, `upper`: the ends of the interval; infinite where the loss does not rise
        so far. On a circle they may leave the turn of the best value, by up to a half.
    - `at_bound`: whether the lower, and the upper end is a bound of the parameter, or
        the end of the range of its transform, as 0 of a log, or half a turn away.
    - `points`, `rise`: values that were looked at, in order, and 2ΔL there.
    - `parameters`: all parameters there, (point, parameter), in the order of `names`.

    `loss_is_lower` says that somewhere along it the loss is below that of the fit:
    fit again from there.
    """

    best: Float[Array, ""]
    stderr: Float[Array, ""]
    lower: Float[Array, ""]
    upper: Float[Array, ""]
    points: Float[Array, " point"]
    rise: Float[Array, " point"]
    parameters: Float[Array, "point parameter"]
    name: str = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    level: float = eqx.field(static=True)
    at_bound: tuple[bool, bool] = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1016/0010-4655(75)90039-9",)

    @property
    def errors(self) -> tuple[float, float]:
        """Asymmetric errors: the lower end less the best, negative, and the upper."""
        return float(self.lower - self.best), float(self.upper - self.best)

    @property
    def loss_is_lower(self) -> bool:
        """Whether the fit has a better optimum along the profile."""
        return bool(jnp.min(self.rise) < -1e-6)

    def plot(self, *, ax: Any = None) -> "matplotlib.axes.Axes":
        """Draw 2ΔL over the parameter, beside the parabola of its error bar."""
        return pictures().profile(self, ax=ax)

    def __repr__(self) -> str:
        return text_representation(self, _profile_report)


def _profile_report(found: Profile) -> list[Block]:
    low, high = found.errors
    text = (
        f"{found.name} = {float(found.best):.6g} {low:+.3g} {high:+.3g} "
        f"({found.level:g} sigma, profile likelihood; stderr {float(found.stderr):.3g})"
    )
    ends = zip(("lower", "upper"), found.at_bound, strict=True)
    bounds = [f"  the {side} end is a bound" for side, here in ends if here]
    better = ["  the fit has a better optimum: fit again from a start on this profile"]
    return [text, *bounds, *(better if found.loss_is_lower else [])]


def profile(fit: Any, experiment: Posterior, name: str, level: float) -> Profile:
    """The profile likelihood of the parameter `name` of a fit."""
    index = one_name(fit.names, name)
    positive("level", level, "it is a number of standard deviations")
    # In the order of their values: a falling transform has its lower end above.
    seen: dict[float, tuple[float, np.ndarray]] = {}
    ends, at_bound = [], []
    for side in (-1.0, 1.0):
        constrained = Constrained(experiment, fit.values, float(fit.sigma_scale))
        best = constrained.best[index]
        toward = side * np.sign(constrained.slope[index])
        edge = float(constrained.edges[int(toward > 0)][index])

        def rise(length: float, c=constrained, best=best, toward=toward) -> float:
            z = best + toward * length
            found = c.root_rise((index,), np.array([z]))
            seen[z] = found, c.last
            return found

        length, bound = crossing(
            rise,
            level,
            first=level * first_step(fit, constrained, index),
            limit=abs(edge - best),
        )
        z = constrained.best.copy()
        z[index] = best + toward * length
        ends.append(
            float(experiment.parameters.values_near(fit.values, jnp.asarray(z))[index])
        )
        # The range of a transform ends at an infinite coordinate, as a log at 0.
        at_bound.append(bound or bool(np.isinf(length) and np.isfinite(ends[-1])))
    return _assembled(fit, experiment, name, level, ends, at_bound, seen)


def _assembled(fit, experiment, name, level, ends, at_bound, seen) -> Profile:
    index = one_name(fit.names, name)
    finite = {z: x for z, x in seen.items() if np.isfinite(x[0])}
    every = [(0.0, np.asarray(fit.values))]
    values = experiment.parameters.values_near
    every += [
        (float(np.sign(r) * r**2), np.asarray(values(fit.values, jnp.asarray(z))))
        for r, z in finite.values()
    ]
    every.sort(key=lambda pair: pair[1][index])
    rises, rows = (np.array(x) for x in zip(*every, strict=True))
    return Profile(
        best=fit.values[index],
        stderr=fit.stderr[index],
        lower=jnp.asarray(ends[0]),
        upper=jnp.asarray(ends[1]),
        points=jnp.asarray(rows[:, index]),
        rise=jnp.asarray(rises),
        parameters=jnp.asarray(rows),
        name=fit.names[index],
        names=fit.names,
        level=float(level),
        at_bound=tuple(at_bound),
    )


def first_step(fit: Any, constrained: Constrained, index: int) -> float:
    """The error bar of a coordinate, or where there is none a tenth of its scale."""
    step = float(fit.stderr[index]) / abs(float(constrained.slope[index]))
    if np.isfinite(step) and step > 0:
        return step
    return 0.1 * max(1.0, abs(float(constrained.best[index])))


#: Doublings of the first step by which a rise is looked for.
_MOST_DOUBLINGS = 40
_MOST_STEPS = 60


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


class Contour(eqx.Module):
    r"""The curve in two parameters on which the profile likelihood has risen so far.

    $$2\,\Delta L = -2\ln(1 - p)$$

    encloses the region of probability p for two parameters together.

    ```python
    def valley(model):  # a banana
        return jnp.stack([model["a"], model["b"] - model["a"] ** 2])

    start, noise = {"a": 0.5, "b": 0.5}, inference.Gaussian(0.3)
    fit = ds.fit(valley, start, jnp.array([1.0, 0.0]), noise=noise)
    fit.contour("a", "b", points=8).points  # of an inference.Contour
    ```

    **Fields:** `points`, (point, 2), in order around the best fit, infinite in a
    direction in which the loss does not rise so far; `names`, of both; `probability`;
    `best`, (2,); `at_bound`, which points lie on a bound; `loss_is_lower`, whether the
    loss was below that of the fit somewhere on the way: fit again from another start.
    """

    points: Float[Array, "point 2"]
    best: Float[Array, "2"]
    at_bound: tuple[bool, ...] = eqx.field(static=True)
    names: tuple[str, str] = eqx.field(static=True)
    probability: float = eqx.field(static=True)
    loss_is_lower: bool = eqx.field(static=True)

    def plot(self, *, ax: Any = None) -> "matplotlib.axes.Axes":
        """Draw the curve and the best fit."""
        return pictures().contour(self, ax=ax)

    def __repr__(self) -> str:
        return text_representation(
            self,
            lambda found: [
                f"Contour({found.names[0]}, {found.names[1]}: {len(found.points)} "
                f"points, {found.probability:.4g} of the probability)"
            ],
        )


def contour(
    fit: Any,
    experiment: Posterior,
    names: tuple[str, str],
    probability: float,
    points: int,
) -> Contour:
    """The contour of two parameters of a fit."""
    pair = tuple(one_name(fit.names, name) for name in names)
    if pair[0] == pair[1]:
        raise ValueError(f"contour takes two parameters, got {names[0]!r} twice")
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    if points < 3:
        raise ValueError(f"points must be at least 3, got {points}")
    level = float(np.sqrt(-2 * np.log1p(-probability)))
    constrained = Constrained(experiment, fit.values, float(fit.sigma_scale))
    held = np.array(pair)
    root = _root(fit, constrained, held)
    best, found, at_bound = constrained.best[held], [], []
    angles = np.arange(points) * (2 * np.pi / points)
    for across in np.stack([np.cos(angles), np.sin(angles)], axis=-1):
        # A ray along a bound leads along it, whatever the rounding of an angle.
        across = np.where(np.abs(across) < 1e-12, 0, across)
        direction = np.sum(root * across, axis=1)

        def rise(length: float, direction=direction) -> float:
            return constrained.root_rise(pair, best + length * direction)

        limit = _limit(constrained, held, direction)
        length, bound = crossing(rise, level, first=level, limit=limit)
        z = constrained.best.copy()
        z[held] = np.where(direction == 0, best, best + length * direction)
        values = experiment.parameters.values_near(fit.values, jnp.asarray(z))
        found.append(np.asarray(values)[held])
        at_bound.append(bound or bool(constrained.at_edge(z)[held].any()))
    return Contour(
        points=jnp.asarray(np.array(found)),
        best=fit.values[held],
        at_bound=tuple(at_bound),
        names=(fit.names[pair[0]], fit.names[pair[1]]),
        probability=float(probability),
        loss_is_lower=constrained.lowest < -1e-3,
    )


def _root(fit: Any, constrained: Constrained, held: np.ndarray) -> np.ndarray:
    """A factor of the covariance of both coordinates, by which rays are as long.

    Of one at a bound as if there were none, and first, so that two rays follow it.
    """
    at_bound = constrained.at_edge(constrained.best)[held]
    known = fit.fisher if at_bound.any() and fit.fisher is not None else fit
    order = np.argsort(~at_bound)
    block = np.asarray(known.covariance)[np.ix_(held[order], held[order])]
    if np.all(np.isfinite(block)) and np.linalg.det(block) > 0:
        sd = np.sqrt(np.diagonal(block))
        unit = sd[:, None] * np.linalg.cholesky(block / np.outer(sd, sd))
        return unit[np.argsort(order)] / constrained.slope[held, None]
    return np.diag([first_step(fit, constrained, int(i)) for i in held])


def _limit(constrained: Constrained, held: np.ndarray, direction: np.ndarray) -> float:
    """How far a ray goes until it meets a bound."""
    best = constrained.best[held]
    lower, upper = (np.asarray(edge)[held] for edge in constrained.edges)
    edge = np.where(direction > 0, upper, lower)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(direction == 0, np.inf, (edge - best) / direction)
    return float(np.min(reach))
