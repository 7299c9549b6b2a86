"""`profile` and `contour`: likelihoods that are no parabolas."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import instance
from ..inference import Contour, Profile
from ._style import INK, LINE_COLORS, axes_or_new


if TYPE_CHECKING:
    import matplotlib.axes


def profile(found: Any, *, ax: Any = None) -> "matplotlib.axes.Axes":
    r"""Draw a profile likelihood, 2ΔL over the parameter, and its interval.

    The dashed parabola is that of the symmetric error bar. Where both differ, the error
    bar misleads.

    ```python
    def curved(model):
        return jnp.stack([jnp.exp(model["a"]), model["b"]])

    start, noise = {"a": 0.5, "b": 0.5}, inference.Gaussian(0.5)
    fit = ds.fit(curved, start, jnp.array([1.0, 0.0]), noise=noise)
    plots.profile(fit.profile("a"))
    ```

    **Arguments:** `found`, the `Profile` of `fit.profile(name)`; `ax`, Matplotlib axes
    to draw into, None makes a figure.

    **Returns:** the axes.

    **Raises:** `ValueError` for anything else; `ImportError` with what to install where
    Matplotlib is missing.
    """
    instance("found", found, Profile, "fit.profile('name')")
    ax = axes_or_new(ax, (4.4, 3.2))
    x, rise = np.asarray(found.points), np.asarray(found.rise)
    best, stderr = float(found.best), float(found.stderr)
    top = found.level**2
    ends = [float(end) for end in (found.lower, found.upper)]
    for end in filter(np.isfinite, ends):
        ax.axvline(end, color=INK, linewidth=0.6, linestyle=":")
    ax.axhline(top, color=INK, linewidth=0.6, linestyle=":")
    if np.isfinite(stderr):
        wide = np.linspace(best - found.level * stderr, best + found.level * stderr, 81)
        style = {"color": INK, "linewidth": 0.8, "label": "error bar"}
        ax.plot(wide, ((wide - best) / stderr) ** 2, "--", **style)
    near = rise <= 1.6 * top
    ax.plot(*_smooth(x[near], rise[near]), color=LINE_COLORS[0], label="profile")
    ax.plot(x[near], rise[near], ".", color=LINE_COLORS[0])
    ax.set(xlabel=found.name, ylabel="2 Δ(−ln L)", ylim=(-0.05 * top, 1.6 * top))
    ax.legend()
    return ax


def contour(found: Any, *, ax: Any = None) -> "matplotlib.axes.Axes":
    """Draw the region of two parameters that a profile likelihood allows.

    ```python
    def valley(model):
        return jnp.stack([model["a"], model["b"] - model["a"] ** 2])

    start, noise = {"a": 0.5, "b": 0.5}, inference.Gaussian(0.3)
    fit = ds.fit(valley, start, jnp.array([1.0, 0.0]), noise=noise)
    plots.contour(fit.contour("a", "b", points=16))
    ```

    **Arguments:** `found`, the `Contour` of `fit.contour(a, b)`; `ax`, Matplotlib axes
    to draw into, None makes a figure.

    **Returns:** the axes.

    **Raises:** `ValueError` for anything else; `ImportError` with what to install where
    Matplotlib is missing.
    """
    instance("found", found, Contour, "fit.contour('a', 'b')")
    ax = axes_or_new(ax, (4.0, 3.6))
    points = np.asarray(found.points)
    closed = np.concatenate([points, points[:1]])
    label = f"{100 * found.probability:.4g} %"
    ax.fill(*closed.T, color=LINE_COLORS[0], alpha=0.12, linewidth=0)
    ax.plot(*closed.T, color=LINE_COLORS[0], label=label)
    ax.plot(*np.asarray(found.best), "+", color=INK)
    ax.set(xlabel=found.names[0], ylabel=found.names[1])
    ax.legend()
    return ax


def _smooth(x: np.ndarray, rise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cubic pieces through the points: of the signed root, which is nearly straight."""
    x, which = np.unique(x, return_index=True)
    center = x[np.argmin(rise[which])]
    root = np.sign(x - center) * np.sqrt(np.maximum(rise[which], 0))
    if x.size < 3:
        return x, root**2
    slope = np.gradient(root, x)
    between = np.linspace(x[0], x[-1], 121)
    i = np.clip(np.searchsorted(x, between) - 1, 0, x.size - 2)
    width = x[i + 1] - x[i]
    s = (between - x[i]) / width
    ends = (1 + 2 * s) * (1 - s) ** 2 * root[i] + s**2 * (3 - 2 * s) * root[i + 1]
    slopes = s * (1 - s) ** 2 * slope[i] - s**2 * (1 - s) * slope[i + 1]
    return between, (ends + width * slopes) ** 2
