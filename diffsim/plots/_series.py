"""Series of points with error bars, each in a color and a marker of its own."""

from typing import Any

import numpy as np

from .._validation import check_known, check_unitless, finite, positive
from ._style import LINE_COLORS, marker


#: Colors of series, which are few: then they repeat.
_FEW = 4
#: Labels with an underscore stand in no legend.
_REPEATED = "_repeated"


def checked_numbers(name: str, values: Any) -> np.ndarray:
    """`values` as an array of NumPy; units would be lost, and traced ones unknown."""
    check_unitless(name, values)
    check_known(name, values)
    return np.asarray(values)


def checked_series(name: str, times: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Times and values as arrays of one shape (time,)."""
    times = checked_numbers("times", times).astype(float)
    values = checked_numbers(name, values).astype(float)
    if times.ndim != 1 or values.shape != times.shape:
        raise ValueError(
            f"times and {name} must have one shape (time,), got {times.shape} and "
            f"{values.shape}"
        )
    remedy = "leave out what was not observed, by known = np.isfinite(...)"
    return finite("times", times, remedy), finite(name, values, remedy)


def checked_sigma(sigma: Any, values: np.ndarray) -> np.ndarray | None:
    """A standard deviation for each value, or None."""
    if sigma is None:
        return None
    sigma = checked_numbers("sigma", positive("sigma", sigma)).astype(float)
    return np.broadcast_to(sigma, values.shape)


def ink(number: int) -> str:
    """The color of a series among few."""
    return LINE_COLORS[number % _FEW]


def series_count(ax: Any) -> int:
    """How many series `draw_points` has drawn into these axes."""
    return sum(bars.get_label() != _REPEATED for bars in ax.containers)


def draw_points(
    ax: Any,
    x: np.ndarray,
    y: np.ndarray,
    sigma: np.ndarray | None,
    *,
    number: int,
    label: str = "_points",
    repeated: bool = False,
):
    """Draw points with error bars; hollow ones where they are `repeated`."""
    color = ink(number)
    ax.errorbar(
        x,
        y,
        sigma,
        fmt=marker(number),
        color=color,
        markerfacecolor="white" if repeated else color,
        markersize=3.5,
        markeredgewidth=0.8,
        elinewidth=0.7,
        label=_REPEATED if repeated else label,
    )


def draw_floor(ax: Any, height: float, label: str):
    """A dotted level below which numbers mean nothing, and what it is."""
    line = {"color": "#777777", "linewidth": 0.9, "linestyle": ":", "zorder": 1}
    ax.axhline(height, label=label, **line)


def legend_above(ax: Any, columns: int):
    """Put the legend over the data, and raise the upper limit until it has room."""
    rows = -(-len(ax.get_legend_handles_labels()[0]) // columns)
    ax.autoscale(axis="y")
    scale = ax.yaxis.get_transform()
    lower, upper = scale.transform(ax.get_ylim())
    upper += (0.03 + 0.075 * rows) * (upper - lower)
    ax.set_ylim(top=scale.inverted().transform([upper])[0])
    place = {"loc": "upper left", "ncols": columns, "columnspacing": 1.2}
    ax.legend(fontsize="small", frameon=False, **place)
