"""`fit`: data, the best fit, and what is left."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ._style import INK, LINE_COLORS, axes_or_new


if TYPE_CHECKING:
    import matplotlib.axes


#: Share of the height that the residuals take, and what is free between.
_BELOW, _GAP = 0.24, 0.06


def fit(found: Any, x: Any = None, *, ax: Any = None) -> "matplotlib.axes.Axes":
    """Draw the data with error bars, the best fit, and residuals in σ below.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)
    scatter = 0.05 * jax.random.normal(jax.random.key(0), t.shape)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    data = decay({"height": 2.0, "rate": 0.7}) + scatter
    start, noise = {"height": 1.0, "rate": 1.0}, inference.Gaussian(0.05)
    ax = plots.fit(ds.fit(decay, start, data, noise=noise), t)
    ax.set_ylabel("height")
    ```

    **Arguments**

    - `found`: the very `Fit` that `ds.fit` returned.
    - `x`: where the data lie, as times, shape (datum,) or (time,) for data of several
        columns; None numbers them. Of several data sets a dict like them, or one for
        all.
    - `ax`: Matplotlib axes to draw into; the residuals take their lowest part. None
        makes a figure.

    **Returns:** the axes of the data.

    **Raises:** `ValueError` for an x of another length, and for a fit that no longer
    knows its data; `ImportError` with what to install where Matplotlib is missing.
    """
    series = [column for part in found.fitted_data() for column in _columns(part, x)]
    ax = axes_or_new(ax, (5.6, 4.0))
    below = ax.inset_axes((0, 0, 1, _BELOW), sharex=ax)
    for reach, depth in ((2, 0.07), (1, 0.09)):
        below.axhspan(-reach, reach, color=INK, alpha=depth, linewidth=0)
    for number, column in enumerate(series):
        ink = LINE_COLORS[number % len(LINE_COLORS)]
        _draw(ax, below, column, ink, len(series) > 1)
    # The data stay above what the residuals take.
    low, high = ax.get_ylim()
    ax.set_ylim(high - (high - low) / (1 - _BELOW - _GAP), high)
    ticks = [tick for tick in ax.get_yticks() if low <= tick <= high]
    ax.set_yticks(ticks)
    ax.spines["left"].set_bounds(low, high)
    ax.set_xlabel("datum" if x is None else "x")
    below.set_ylabel("residual / σ")
    below.tick_params(labelbottom=False)
    if len(series) > 1:
        ax.legend()
    return ax


def _draw(ax: Any, below: Any, column: dict[str, Any], ink: str, several: bool):
    x, used = column["x"], column["used"]
    order = np.argsort(x, kind="stable")
    style = {"fmt": ".", "color": ink, "elinewidth": 0.7, "alpha": 0.7}
    label = column["name"] if several else None
    bars = column["data"][used], column["stderr"][used]
    ax.errorbar(x[used], *bars, label=label, **style)
    ax.plot(x[order], column["expected"][order], color=ink if several else INK)
    below.plot(x[used], column["residuals"][used], ".", color=ink, alpha=0.7)


def _columns(part: Any, x: Any) -> list[dict[str, Any]]:
    """Columns of data along x, of every array of a data set."""
    fields = ("data", "expected", "stderr", "residuals", "used")
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(part.data)[0]]
    leaves = [jax.tree.leaves(getattr(part, field)) for field in fields]
    if all(np.ndim(leaf) == 0 for leaf in leaves[0]):  # many numbers, one series
        paths, leaves = [()], [[np.array(numbers)] for numbers in leaves]
    columns = []
    for path, *arrays in zip(paths, *leaves, strict=True):
        name = part.name.removeprefix("data") + jax.tree_util.keystr(path)
        name = name.strip("[]'.").replace("']['", ".")
        tables = [np.asarray(a).reshape(np.shape(a)[0], -1) for a in arrays]
        rows, count = tables[0].shape
        where = x[name] if isinstance(x, dict) else x
        where = np.arange(rows) if where is None else np.asarray(where)
        if where.shape != (rows,):
            raise ValueError(
                f"x must have an entry for each of {rows} data of {name or 'the fit'}, "
                f"got shape {where.shape}"
            )
        for i in range(count):
            label = (name or "data") + (f" {i}" if count > 1 else "")
            column = {
                field: table[:, i] for field, table in zip(fields, tables, strict=True)
            }
            columns.append({"x": where, "name": label, **column})
    return columns
