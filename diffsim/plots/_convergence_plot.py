"""`convergence`: error over step, and the slope that is the order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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
    _check(several)
    ax = axes_or_new(ax, (4.4, 3.6))
    ax.set(xscale="log", yscale="log")
    for number, (name, one) in enumerate(several.items()):
        _draw(ax, one, name=name, number=number)
    # Once for all that have the same.
    for floor in {one.floor for one in several.values() if np.any(_lost(one))}:
        draw_floor(ax, floor, "rounding")
    _choose_step_ticks(ax)
    ax.set(xlabel=label, ylabel="relative error")
    legend_above(ax, columns=1)
    return ax


def _choose_step_ticks(ax: Any):
    """Ticks at 1, 2 and 5: steps seldom span a decade, and all nine would overlap."""
    ticker = module("matplotlib.ticker")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())


def _check(several: Mapping[str, Any]):
    for one in several.values() or (several,):
        if not isinstance(one, Convergence):
            raise ValueError(
                "found must be a verify.Convergence or a dict from labels to one or "
                f"more of them, got {type(one).__name__}"
            )


def _lost(one: Convergence) -> np.ndarray:
    return ~(np.asarray(one.errors) > one.floor)


def _draw(ax: Any, one: Convergence, *, name: str, number: int):
    h, errors, lost = np.asarray(one.steps), np.asarray(one.errors), _lost(one)
    order = "order unknown" if np.isnan(one.order) else f"order {one.order:.2f}"
    # A method that is exact has an error of zero, which no logarithm shows.
    shown = np.maximum(errors, one.floor * 1e-3)
    color, style = ink(number), marker(number)
    points = {"color": color, "markersize": 4.5, "linestyle": "none"}
    ax.plot(h[lost], shown[lost], style, markerfacecolor="white", **points)
    line = {"color": color, "linewidth": 1.0, "linestyle": dash(number)}
    if not np.isnan(one.order):
        middle = np.mean(np.log(errors[~lost]) - one.order * np.log(h[~lost]))
        ends = np.array([h[~lost].min(), h[~lost].max()])
        ax.plot(ends, np.exp(middle) * ends**one.order, **line)
    # The legend shows what points and line have in common.
    ax.plot(h[~lost], errors[~lost], style, **points)
    words = f"{name}, {order}" if name else order
    ax.plot([], [], style, label=words, **(points | line))
