"""`sweep`: an output over one or two parameters, and the runs that failed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import function_of, instance, one_of
from ..sweeps import Sweep
from ._axis_labels import Labels
from ._series import ink
from ._style import INK, axes_or_new, look, module


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.cm


#: From this ratio of neighbors on, an axis of even ratios is logarithmic.
_LEAST_RATIO = 1.05


def sweep(
    found: Any,
    *,
    output: Any = None,
    label: str = "output",
    labels: Any = None,
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    """Draw an output of a sweep: a line over one parameter, a heat map over two.

    Two parameters that are drawn, as by `sweeps.sobol`, make points in the plane. Runs
    that failed are crosses below the line or in the plane, and hatched in the map.
    Values in even ratios, `np.geomspace`, have a logarithmic axis.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    over = sweeps.grid(length=np.linspace(0.1, 2.0, 12), g=np.linspace(1.0, 25.0, 12))
    found = ds.sweep(period, {"length": jnp.array(1.0), "g": jnp.array(9.8)}, over)
    plots.sweep(found, label="period [s]")
    ```

    **Arguments**

    - `found`: what `sweep` returned, over one parameter that is a number, or over two.
        A map needs every combination of their values, as `sweeps.grid` makes them.
    - `output`: a function from `Sweep.outputs`, whose arrays have a leading run axis,
        to one number a run, shape (run,); None takes outputs that are this already.
    - `label`: the name and unit of that number.
    - `labels`: those of parameters, by path: {"equation.diffusivity": "D [m²/s]"}.
    - `ax`: Matplotlib axes to draw into; None makes a figure.

    **Returns:** the axes; those of the color bar are
        `ax.collections[0].colorbar.ax`.

    **Raises:** `ValueError` for an output of another shape, parameters that are no
        numbers, or three or more of them; `ImportError` with what to install where
        Matplotlib is missing.

    **Limits:** two parameters at most (convenience: take some runs of the others).
    """
    instance("found", found, Sweep, "ds.sweep returns")
    values = found.outputs
    if output is not None:
        values = function_of("output", output, ("outputs",))(found.outputs)
    shape = np.shape(values) if hasattr(values, "shape") else type(values).__name__
    if shape != (len(found),):
        raise ValueError(
            f"output must give one number a run, shape ({len(found)},), got {shape}; "
            "output=lambda outputs: outputs[:, 0], say, or "
            "lambda run: run.states.positions[:, -1, 0, 0]"
        )
    values = np.asarray(values)
    if np.iscomplexobj(values):
        raise ValueError("output must give real numbers, got complex ones")
    for path, numbers in found.parameters.items():
        if np.ndim(numbers) != 1:
            raise ValueError(
                f"parameters must be one number a run, got {path} of shape "
                f"{np.shape(numbers)}"
            )
    values = np.where(found.successful & np.isfinite(values), values, np.nan)
    word = "failed or not finite"
    word = word if np.any(np.isnan(values) & found.successful) else "failed"
    paths = list(found.parameters)
    one_of("the number of parameters of found", len(paths), (1, 2))
    words = Labels(labels, paths)
    ax = axes_or_new(ax, (4.6, 3.4))
    if len(paths) == 1:
        _draw_line(ax, found.parameters[paths[0]], values, word)
        ax.set(xlabel=words[paths[0]], ylabel=label)
        return ax
    x, y = found.parameters.values()
    colored = _draw_map(ax, x, y, values, word)
    ax.set(xlabel=words[paths[0]], ylabel=words[paths[1]])
    with look():
        ax.figure.colorbar(colored, ax=ax, label=label).outline.set_visible(False)
    return ax


def _draw_line(ax: Any, x: np.ndarray, values: np.ndarray, word: str):
    """Draw a line that NaN breaks, and crosses where runs failed."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], values[order]
    lost = np.isnan(y)
    ax.plot(x, y, "o-", color=ink(0), markersize=3.5, linewidth=1.0)
    if np.any(lost):
        cross = {"color": INK, "markersize": 5, "clip_on": False}
        low = np.full(lost.sum(), 0.03)
        across = ax.get_xaxis_transform()
        ax.plot(x[lost], low, "x", transform=across, label=word, **cross)
        ax.legend(fontsize="small", frameon=False)
    if _is_even_in_ratio(np.unique(x)):
        ax.set_xscale("log")


def _draw_map(
    ax: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, word: str
) -> "matplotlib.cm.ScalarMappable":
    """Draw cells of a product of parameters, points of others, such as draws."""
    lost = np.isnan(values)
    (columns, i), (rows, j) = (np.unique(a, return_inverse=True) for a in (x, y))
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    above |= {"fontsize": "small", "frameon": False}
    cells = set(zip(i, j, strict=True))
    if not len(values) == len(cells) == columns.size * rows.size:
        points = ax.scatter(x[~lost], y[~lost], s=14, c=values[~lost], cmap="cividis")
        if np.any(lost):
            cross = {"s": 18, "c": INK, "marker": "x", "linewidth": 0.8}
            ax.scatter(x[lost], y[lost], label=word, **cross)
            ax.legend(**above)
        return points
    table = np.full((rows.size, columns.size), np.nan)
    table[j, i] = values
    across, up = _edges(columns), _edges(rows)
    mesh = ax.pcolormesh(across, up, np.ma.masked_invalid(table), cmap="cividis")
    if np.any(lost):
        patches = module("matplotlib.patches")
        white = {"facecolor": "white", "linewidth": 0}
        style = {"edgecolor": INK, "hatch": "////", **white}
        for column, row in zip(i[lost], j[lost], strict=True):
            corner = across[column], up[row]
            size = across[column + 1] - corner[0], up[row + 1] - corner[1]
            ax.add_patch(patches.Rectangle(corner, *size, **style))
        ax.legend(handles=[patches.Patch(label=word, **style)], **above)
    if _is_even_in_ratio(columns):
        ax.set_xscale("log")
    if _is_even_in_ratio(rows):
        ax.set_yscale("log")
    ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    return mesh


def _is_even_in_ratio(values: np.ndarray) -> bool:
    if values.size < 3 or values[0] <= 0:
        return False
    ratios = values[1:] / values[:-1]
    return bool(ratios[0] > _LEAST_RATIO and np.allclose(ratios, ratios[0], rtol=1e-3))


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of cells half way between values, in ratio where these are even in it."""
    if values.size == 1:
        return values[0] + np.array([-0.5, 0.5])
    even_in_ratio = _is_even_in_ratio(values)
    values = np.log(values) if even_in_ratio else values
    middle = (values[1:] + values[:-1]) / 2
    edges = np.r_[2 * values[0] - middle[0], middle, 2 * values[-1] - middle[-1]]
    return np.exp(edges) if even_in_ratio else edges
