"""`Contour`: the region of two parameters that the data allow."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._extras import pictures
from .._parameter_selection import one_name
from .._text_table import text_representation
from ._constrained_fit import Constrained, crossing
from ._posterior import Posterior
from ._profile import first_step


if TYPE_CHECKING:
    import matplotlib.axes


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
