"""Color maps and their limits, and the bar that says what a color means."""

from typing import Any, NamedTuple

import numpy as np

from ._plot_options import checked_limits
from ._style import INK, color, module


# Viridis is perceptually uniform and grows lighter all the way, so that prints in grey
# and the color-blind keep the order of values. Purple to orange differs along the axis
# from blue to yellow, which nearly everyone sees, and its ends are not equally dark, as
# those of blue to red are: a print in grey still tells the signs apart.
SEQUENTIAL, DIVERGING = "viridis", "PuOr_r"
#: Values of both signs; others are where rounding or a scheme overshoots zero.
_BOTH_SIGNS = 0.05


class ColorScale(NamedTuple):
    """A color map, a norm of Matplotlib, and which ends values lie beyond."""

    colormap: Any
    norm: Any
    extend: str

    @property
    def diverging(self) -> bool:
        return self.colormap == DIVERGING


def color_scale(low: float, high: float, colormap: Any, limits: Any) -> ColorScale:
    """Colors for values from `low` to `high`, where nothing else is given.

    Of both signs: centered on zero, light in the middle. Else from the least to the
    largest value.
    """
    signed = is_signed(low, high)
    colormap = (DIVERGING if signed else SEQUENTIAL) if colormap is None else colormap
    colors = module("matplotlib.colors")
    if isinstance(limits, colors.Normalize):
        return ColorScale(colormap, limits, "neither")
    ends = checked_limits(limits) if limits is not None else _default(low, high, signed)
    below, above = low < ends[0], high > ends[1]
    extend = {(1, 0): "min", (0, 1): "max", (1, 1): "both"}.get((below, above))
    return ColorScale(colormap, colors.Normalize(*ends), extend or "neither")


def time_colors(count: int, colormap: Any = None) -> list[Any]:
    """A color for each of several times, lighter with time; of one that of a series."""
    if count == 1:
        return [color(8)]
    shades = module("matplotlib").colormaps[colormap or SEQUENTIAL]
    # Yellow is not seen on white.
    return list(shades(np.linspace(0, 0.85, count)))


def is_signed(low: float, high: float) -> bool:
    """Whether values have both signs, beyond an overshoot of a few percent."""
    return min(-low, high) > _BOTH_SIGNS * max(-low, high)


def _default(low: float, high: float, signed: bool) -> tuple[float, float]:
    if signed:
        return -max(-low, high), max(-low, high)
    if high > low:
        return low, high
    # One color stands for a constant, and the bar shows where it lies.
    around = abs(low) / 2 or 0.5
    return low - around, high + around


def color_bar(image: Any, axes: Any, scale: ColorScale, label: str):
    """Draw a bar beside an axes, or beside the last of several, as high as its map."""
    last = np.ravel(axes)[-1]
    if last.figure.get_layout_engine() is not None:
        thick, high = _bar_size(last)
        beside = last.inset_axes((1 + 0.6 * thick, 0.5 - high / 2, thick, high))
    else:
        # Nobody else would make room for it.
        divider = module("mpl_toolkits.axes_grid1").make_axes_locatable(last)
        beside = divider.append_axes("right", size="4%", pad=0.08)
    bar = last.figure.colorbar(image, cax=beside, label=label, extend=scale.extend)
    bar.outline.set(edgecolor=INK, linewidth=0.6)


def _bar_size(axes: Any) -> tuple[float, float]:
    """Thickness and height of a bar, in widths and heights of the axes."""
    width, height = axes.get_window_extent().size / axes.figure.dpi
    inches = 0.14 * float(np.clip(max(width, height) / 4.5, 0.6, 1.0))
    if axes.get_aspect() == "auto":
        return inches / width, 1.0
    across, up = (np.ptp(ends) for ends in (axes.get_xlim(), axes.get_ylim()))
    width = min(width, height * across / up)
    # Beside a map like a ribbon it would have no height for numbers.
    return inches / width, max(1.0, 0.15 * across / up)
