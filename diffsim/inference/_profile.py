"""`Profile`: the likelihood along one parameter, with all others fitted anew."""

from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._extras import pictures
from .._parameter_selection import one_name
from .._text_table import Block, text_representation
from .._validation import positive
from ._constrained_fit import Constrained, crossing
from ._posterior import Posterior


if TYPE_CHECKING:
    import matplotlib.axes


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
