"""Color maps and their limits, and the bar that says what a color means."""

from typing import Any, NamedTuple

import numpy as np

from ._style import INK, color, module


# Viridis is perceptually uniform and grows lighter all the way, so that prints in grey
# and the color-blind keep the order of values. Purple to orange differs along the axis
# from blue to yellow, which nearly everyone sees, and its ends are not equally dark, as
# those of blue to red are: a print in grey still tells the signs apart.
SEQUENTIAL, DIVERGING = "viridis", "PuOr_r"
#: Values have both signs beyond this; below, rounding or a scheme overshoots zero.
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

    Values of both signs are centered on zero, light in the middle; the colors of others
    reach from the least to the largest.
    """
    signed = min(-low, high) > _BOTH_SIGNS * max(-low, high)
    if colormap is None:
        colormap = DIVERGING if signed else SEQUENTIAL
    colors = module("matplotlib.colors")
    if isinstance(limits, colors.Normalize):
        return ColorScale(colormap, limits, "neither")
    if limits is not None:
        bottom, top = limits
    elif signed:
        bottom, top = -max(-low, high), max(-low, high)
    else:
        # A constant has one color, and the bar shows where it lies.
        margin = 0.0 if high > low else abs(low) / 2 or 0.5
        bottom, top = low - margin, high + margin
    extend = ("neither", "min", "max", "both")[(low < bottom) + 2 * (high > top)]
    return ColorScale(colormap, colors.Normalize(bottom, top), extend)


def time_colors(count: int, colormap: Any = None) -> list[Any]:
    """A color for each of several times, lighter with time."""
    if count == 1:
        return [color(8)]
    shades = module("matplotlib").colormaps[colormap or SEQUENTIAL]
    # Yellow is not seen on white.
    return list(shades(np.linspace(0, 0.85, count)))


def color_bar(image: Any, axes: Any, scale: ColorScale, label: str):
    """Draw a bar beside an axes, or beside the last of several, as high as its map."""
    last = np.ravel(axes)[-1]
    if last.figure.get_layout_engine() is None:
        # Nobody else would make room for it.
        divider = module("mpl_toolkits.axes_grid1").make_axes_locatable(last)
        beside = divider.append_axes("right", size="4%", pad=0.08)
    else:
        # Thickness and height in widths and heights of the axes.
        width, height = last.get_window_extent().size / last.figure.dpi
        inches = 0.14 * float(np.clip(max(width, height) / 4.5, 0.6, 1.0))
        thick, high = inches / width, 1.0
        if last.get_aspect() != "auto":
            across, up = np.ptp(last.get_xlim()), np.ptp(last.get_ylim())
            thick = inches / min(width, height * across / up)
            # Beside a map like a ribbon it would have no height for numbers.
            high = max(1.0, 0.15 * across / up)
        beside = last.inset_axes((1 + 0.6 * thick, 0.5 - high / 2, thick, high))
    bar = last.figure.colorbar(image, cax=beside, label=label, extend=scale.extend)
    bar.outline.set(edgecolor=INK, linewidth=0.6)
