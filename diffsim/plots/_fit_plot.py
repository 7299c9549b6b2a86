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
    if not hasattr(found, "fitted_data"):
        raise ValueError(
            f"found must be the Fit that ds.fit returned, got {type(found).__name__}"
        )
    series = [one for part in found.fitted_data() for one in _series(part, x)]
    ax = axes_or_new(ax, (5.6, 4.0))
    below = ax.inset_axes((0, 0, 1, _BELOW), sharex=ax)
    for reach, depth in ((2, 0.07), (1, 0.09)):
        below.axhspan(-reach, reach, color=INK, alpha=depth, linewidth=0)
    for number, one in enumerate(series):
        _draw(ax, below, one, LINE_COLORS[number % len(LINE_COLORS)], len(series) > 1)
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


def _draw(ax: Any, below: Any, one: dict[str, Any], ink: str, several: bool):
    x, used = one["x"], one["used"]
    order = np.argsort(x, kind="stable")
    style = {"fmt": ".", "color": ink, "elinewidth": 0.7, "alpha": 0.7}
    label = one["name"] if several else None
    ax.errorbar(x[used], one["data"][used], one["stderr"][used], label=label, **style)
    ax.plot(x[order], one["expected"][order], color=ink if several else INK)
    below.plot(x[used], one["residuals"][used], ".", color=ink, alpha=0.7)


def _series(part: Any, x: Any) -> list[dict[str, Any]]:
    """Columns of data along x, of every array of a data set."""
    names = ("data", "expected", "stderr", "residuals", "used")
    own = part.name.removeprefix("data")
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(part.data)[0]]
    columns = [jax.tree.leaves(getattr(part, name)) for name in names]
    if all(np.ndim(leaf) == 0 for leaf in columns[0]):  # many numbers, one series
        paths, columns = [()], [[np.array(leaves)] for leaves in columns]
    found = []
    for path, *leaves in zip(paths, *columns, strict=True):
        name = (own + jax.tree_util.keystr(path)).strip("[]'.").replace("']['", ".")
        arrays = [np.asarray(x).reshape(np.shape(x)[0], -1) for x in leaves]
        where = _places(x, name, arrays[0].shape[0])
        for i in range(arrays[0].shape[1]):
            label = name or "data"
            label = label if arrays[0].shape[1] == 1 else f"{label} {i}"
            each = {what: a[:, i] for what, a in zip(names, arrays, strict=True)}
            found.append({"x": where, "name": label, **each})
    return found


def _places(x: Any, name: str, rows: int) -> np.ndarray:
    """Where the data of a series lie."""
    if x is None:
        return np.arange(rows)
    if isinstance(x, dict):
        if name not in x:
            raise ValueError(
                f"x as a dict must have an entry for each data set, got the keys "
                f"{sorted(map(str, x))} and none for {name or 'an array'!r}"
            )
        x = x[name]
    where = np.asarray(x)
    if where.shape != (rows,):
        raise ValueError(
            f"x must have an entry for each of {rows} data of {name or 'the fit'}, got "
            f"shape {where.shape}"
        )
    return where
