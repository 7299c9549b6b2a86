"""`residuals`: what a fit leaves of the data, in units of their noise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import positive
from ._series import checked_numbers
from ._style import COLORS, INK, axes_or_new, color


if TYPE_CHECKING:
    import matplotlib.axes


#: Lines lie this many standard deviations apart: one point in 15 000 strays further
#: than half of it.
_APART = 8.0
#: Color of a series that stands alone: blue, dark enough for thin dots.
_ALONE = COLORS[8]


def residuals(
    times: Any,
    residuals: Any,
    sigma: Any,
    *,
    names: Sequence[str] | None = None,
    ax: Any = None,
    colors: Sequence[str] | None = None,
) -> "matplotlib.axes.Axes":
    r"""Draw residuals over time, a line of points a series, bands of ±1 and ±2σ.

    $$\rho = (\text{data} - \text{prediction}) / \sigma$$

    ```python
    t = np.linspace(0.0, 100.0, 60)
    left = 3.0 * np.random.default_rng(0).normal(size=(60, 2))  # data − prediction
    ax = plots.residuals(t, left, sigma=3.0, names=["HARPS", "HIRES"])
    ax.set_xlabel("time [d]")
    ```

    A good fit leaves two points in three inside the dark band and nineteen in twenty
    inside the light one, and no pattern. Beside each line stands the mean of ρ², 1
    within a few times $\sqrt{2/N}$.

    **Arguments**

    - `times`: shape (time,).
    - `residuals`: data − prediction, shape (time,), (time, series) or
        (time, series, component); the components of a series share its line.
    - `sigma`: standard deviation, a number or anything that broadcasts to `residuals`.
    - `names`: a label for each series.
    - `ax`: Matplotlib axes to draw into; None makes a figure.
    - `colors`: one for each series; None takes the house's.

    One series alone, without a name, has ticks in units of σ instead.

    **Returns:** the axes; `ax.set_xlabel("time [d]")` says what times are.

    **Raises:** `ValueError` for shapes that do not fit; `ImportError` with what to
    install where matplotlib is missing.
    """
    times = checked_numbers("times", times)
    residuals = checked_numbers("residuals", residuals)
    sigma = checked_numbers("sigma", positive("sigma", sigma))
    if times.ndim != 1 or residuals.shape[:1] != times.shape or residuals.ndim > 3:
        raise ValueError(
            "residuals must have shape (time,), (time, series) or "
            f"(time, series, component) for {times.size} times, got {residuals.shape}"
        )
    series = residuals.shape[1] if residuals.ndim > 1 else 1
    distances = residuals / np.broadcast_to(sigma, residuals.shape)
    distances = distances.reshape(times.size, series, -1)
    alone = series == 1 and names is None
    ax = axes_or_new(ax, (6.5, 2.2 if alone else 1.2 + 0.55 * series))
    heights = -_APART * np.arange(series)
    for number, height in enumerate(heights):
        ink = _ALONE if alone else color(number)
        ink = ink if colors is None else colors[number]
        for reach, depth in ((2, 0.07), (1, 0.09)):
            band = {"color": INK, "alpha": depth, "linewidth": 0}
            ax.axhspan(height - reach, height + reach, **band)
        own = distances[:, number]
        x = np.repeat(times, own.shape[1])
        # A few are dots, and thousands a cloud.
        dots = {"markersize": np.clip(60 / np.sqrt(x.size), 1.8, 5.0), "alpha": 0.7}
        ax.plot(x, height + own.ravel(), ".", color=ink, **dots)
        _write_right(ax, height, f"{np.nanmean(np.square(own)):.2f}", ink)
    _write_right(ax, _APART / 2, "mean of\n(residual/σ)²", INK)
    if alone:
        ax.set(yticks=(-2, 0, 2), ylabel="residual / σ")
    else:
        ax.set_yticks(heights, ("",) * series if names is None else names)
        ax.tick_params(axis="y", length=0)
    ax.set_ylim(heights[-1] - _APART / 2, _APART / 2)
    ax.margins(x=0.01)
    return ax


def _write_right(ax: Any, height: float, text: str, ink: str):
    ax.annotate(
        text,
        (1.0, height),
        (5, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize="small",
        color=ink,
        annotation_clip=False,
    )
