"""`sweep`: an output over one or two parameters, and the runs that failed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import function_of
from ..sweeps import Sweep
from ._axis_labels import Labels
from ._series import ink
from ._style import INK, axes_or_new, look, module


if TYPE_CHECKING:
    import matplotlib.axes


#: From this ratio of neighbors on, an axis of even ratios is logarithmic.
_LEAST_RATIO = 1.05
#: How one number is taken of outputs, by their type.
_FIRST = "output=lambda outputs: outputs[:, 0] takes the first"
_EXAMPLES = {
    "Trajectory": "output=lambda run: run.states.positions[:, -1, 0, 0]",
    "dict": "output=lambda outputs: outputs['energy']",
}


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
    if not isinstance(found, Sweep):
        raise ValueError(
            f"found must be what ds.sweep returned, got {type(found).__name__}"
        )
    if output is not None:
        function_of("output", output, ("outputs",))
    values = _values(found, output)
    words = Labels(labels, tuple(found.parameters))
    for path, one in found.parameters.items():
        if np.ndim(one) != 1:
            raise ValueError(
                f"parameters must be one number a run, got {path} of shape "
                f"{np.shape(one)}"
            )
    if len(found.parameters) > 2:
        raise ValueError(
            f"found must be over one or two parameters, got {len(found.parameters)}: "
            f"{', '.join(found.parameters)}"
        )
    ax = axes_or_new(ax, (4.6, 3.4))
    draw = _draw_line if len(found.parameters) == 1 else _draw_map
    draw(ax, found, values, label, words)
    return ax


def _values(found: Sweep, output: Any) -> np.ndarray:
    """One number a run, NaN for those that failed or that have none."""
    taken = found.outputs if output is None else output(found.outputs)
    shape = np.shape(taken) if hasattr(taken, "shape") else type(taken).__name__
    if shape != (len(found),):
        raise ValueError(
            f"output must give one number a run, shape ({len(found)},), got {shape}; "
            f"{_EXAMPLES.get(type(taken).__name__, _FIRST)}, say"
        )
    values = np.asarray(taken)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"output must give real numbers, got {values.dtype}")
    return np.where(found.successful & np.isfinite(values), values, np.nan)


def _lost(found: Sweep, values: np.ndarray) -> tuple[np.ndarray, str]:
    """The runs that have no value to draw, and the word for them."""
    lost = np.isnan(values)
    more = np.any(lost & found.successful)
    return lost, "failed or not finite" if more else "failed"


def _is_even_in_ratio(values: np.ndarray) -> bool:
    if values.size < 3 or values[0] <= 0:
        return False
    ratios = values[1:] / values[:-1]
    return bool(ratios[0] > _LEAST_RATIO and np.allclose(ratios, ratios[0], rtol=1e-3))


def _draw_line(ax: Any, found: Sweep, values: np.ndarray, label: str, words: Labels):
    ((path, given),) = found.parameters.items()
    order = np.argsort(given, kind="stable")
    lost, word = _lost(found, values)
    x, y, lost = given[order], values[order], lost[order]
    # NaN breaks the line where a run failed.
    ax.plot(x, y, "o-", color=ink(0), markersize=3.5, linewidth=1.0)
    if np.any(lost):
        cross = {"color": INK, "markersize": 5, "clip_on": False}
        low = np.full(lost.sum(), 0.03)
        across = ax.get_xaxis_transform()
        ax.plot(x[lost], low, "x", transform=across, label=word, **cross)
        ax.legend(fontsize="small", frameon=False)
    if _is_even_in_ratio(np.unique(x)):
        ax.set_xscale("log")
    ax.set(xlabel=words[path], ylabel=label)


def _draw_map(ax: Any, found: Sweep, values: np.ndarray, label: str, words: Labels):
    paths = list(found.parameters)
    (x, i), (y, j) = (
        np.unique(given, return_inverse=True) for given in found.parameters.values()
    )
    if len(found) != x.size * y.size or len(set(zip(i, j, strict=True))) != len(found):
        _draw_points(ax, found, values, label, words)
        return
    table = np.full((y.size, x.size), np.nan)
    table[j, i] = values
    lost, word = _lost(found, values)
    edges = _edges(x), _edges(y)
    mesh = ax.pcolormesh(*edges, np.ma.masked_invalid(table), cmap="cividis")
    _hatch(ax, edges, np.stack([i, j], axis=1)[lost], word)
    for name, one in (("x", x), ("y", y)):
        if _is_even_in_ratio(one):
            ax.set(**{f"{name}scale": "log"})
    ax.set(xlabel=words[paths[0]], ylabel=words[paths[1]])
    ax.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
    with look():
        ax.figure.colorbar(mesh, ax=ax, label=label).outline.set_visible(False)


def _draw_points(ax: Any, found: Sweep, values: np.ndarray, label: str, words: Labels):
    """Runs that are no product, such as draws: a point each."""
    (one, x), (other, y) = found.parameters.items()
    lost, word = _lost(found, values)
    points = ax.scatter(x[~lost], y[~lost], s=14, c=values[~lost], cmap="cividis")
    if np.any(lost):
        cross = {"s": 18, "c": INK, "marker": "x", "linewidth": 0.8}
        ax.scatter(x[lost], y[lost], label=word, **cross)
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
        ax.legend(fontsize="small", frameon=False, **above)
    ax.set(xlabel=words[one], ylabel=words[other])
    with look():
        ax.figure.colorbar(points, ax=ax, label=label).outline.set_visible(False)


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of cells half way between values, in ratio where these are even in it."""
    if _is_even_in_ratio(values):
        return np.exp(_edges_between(np.log(values)))
    return _edges_between(values)


def _edges_between(values: np.ndarray) -> np.ndarray:
    if values.size == 1:
        return values[0] + np.array([-0.5, 0.5])
    middle = (values[1:] + values[:-1]) / 2
    first, last = 2 * values[0] - middle[0], 2 * values[-1] - middle[-1]
    return np.concatenate([[first], middle, [last]])


def _hatch(ax: Any, edges: tuple[np.ndarray, np.ndarray], cells: np.ndarray, word: str):
    if not cells.size:
        return
    patches = module("matplotlib.patches")
    style = {"facecolor": "white", "edgecolor": INK, "hatch": "////", "linewidth": 0}
    for column, row in cells:
        corner = edges[0][column], edges[1][row]
        size = np.diff(edges[0])[column], np.diff(edges[1])[row]
        ax.add_patch(patches.Rectangle(corner, *size, **style))
    key = patches.Patch(label=word, **style)
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    ax.legend(handles=[key], fontsize="small", frameon=False, **above)
