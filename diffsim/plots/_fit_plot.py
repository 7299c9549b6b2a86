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
    """Columns of data along x."""
    name = part.name.removeprefix("data").strip("[]'.") or part.name
    names = ("data", "expected", "stderr", "residuals", "used")
    columns = [_columns(getattr(part, name)) for name in names]
    given = x
    if isinstance(x, dict):
        given = x.get(name)
    rows = columns[0].shape[0]
    where = np.arange(rows) if given is None else np.asarray(given)
    if where.shape != (rows,):
        raise ValueError(
            f"x must have an entry for each of {rows} data of {part.name}, got shape "
            f"{where.shape}"
        )
    count = columns[0].shape[1]
    return [
        {
            "x": where,
            "name": name if count == 1 else f"{name} {i}",
            **{what: col[:, i] for what, col in zip(names, columns, strict=True)},
        }
        for i in range(count)
    ]


def _columns(tree: Any) -> np.ndarray:
    """An array of data as columns along its first axis; a pytree as one column."""
    if hasattr(tree, "shape") and np.ndim(tree) >= 1:
        return np.asarray(tree).reshape(np.shape(tree)[0], -1)
    leaves = [np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves)[:, None]
