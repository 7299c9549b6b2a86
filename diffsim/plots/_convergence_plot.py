"""`convergence`: error over step, and the slope that is the order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import instance
from ..verify import Convergence
from ._series import draw_floor, ink, legend_above
from ._style import axes_or_new, dash, marker, module


if TYPE_CHECKING:
    import matplotlib.axes


def convergence(
    found: Any,
    *,
    label: str = "step",
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw error over step, $e(h) = C h^p$, with the line of the observed order.

    Both axes are logarithmic, so that the order p is the slope. Hollow points lie below
    the dotted line, where rounding makes errors meaningless; they are no part of p.

    ```python
    def run(step):
        method = ds.Method(integrators.Leapfrog(), step=step)
        return ds.simulate(problems.kepler(), 5.0, method).states.positions[1, :2]

    exact = 0.75 * problems.kepler_orbit(5.0)[:2]
    found = verify.convergence(run, [0.1, 0.05, 0.025], exact=exact)
    plots.convergence({"Leapfrog": found}, label="time step")
    ```

    **Arguments**

    - `found`: the `Convergence` that `verify.convergence` returned, or a dict from
        labels to several.
    - `label`: of the horizontal axis, with its unit: "time step [d]", "Δx [m]".
    - `ax`: Matplotlib axes to draw into; None makes a figure.

    **Returns:** the axes; the legend has the orders.

    **Raises:** `ValueError` for anything else; `ImportError` with what to install where
        Matplotlib is missing.
    """
    several = found if isinstance(found, Mapping) else {"": found}
    example = "verify.convergence returns, or a dict of these"
    for curve in several.values():
        instance("found", curve, Convergence, example)
    ax = axes_or_new(ax, (4.4, 3.6))
    ax.set(xscale="log", yscale="log")
    for number, (name, curve) in enumerate(several.items()):
        _draw(ax, curve, name=name, number=number)
    # Once for all that have the same.
    for floor in {curve.floor for curve in several.values() if np.any(_lost(curve))}:
        draw_floor(ax, floor, "rounding")
    # Steps seldom span a decade, and all nine ticks would overlap.
    ticker = module("matplotlib.ticker")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set(xlabel=label, ylabel="relative error")
    legend_above(ax, columns=1)
    return ax


def _lost(curve: Convergence) -> np.ndarray:
    """Which errors rounding makes meaningless."""
    return ~(np.asarray(curve.errors) > curve.floor)


def _draw(ax: Any, curve: Convergence, *, name: str, number: int):
    h, errors, lost = np.asarray(curve.steps), np.asarray(curve.errors), _lost(curve)
    known = not np.isnan(curve.order)
    order = f"order {curve.order:.2f}" if known else "order unknown"
    # A method that is exact has an error of zero, which no logarithm shows.
    shown = np.maximum(errors, curve.floor * 1e-3)
    color, style = ink(number), marker(number)
    points = {"color": color, "markersize": 4.5, "linestyle": "none"}
    ax.plot(h[lost], shown[lost], style, markerfacecolor="white", **points)
    line = {"color": color, "linewidth": 1.0, "linestyle": dash(number)}
    if known:
        middle = np.mean(np.log(errors[~lost]) - curve.order * np.log(h[~lost]))
        ends = np.array([h[~lost].min(), h[~lost].max()])
        ax.plot(ends, np.exp(middle) * ends**curve.order, **line)
    # The legend shows what points and line have in common.
    ax.plot(h[~lost], errors[~lost], style, **points)
    words = f"{name}, {order}" if name else order
    ax.plot([], [], style, label=words, **(points | line))
