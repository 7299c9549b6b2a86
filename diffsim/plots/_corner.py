"""`corner`: uncertainties of parameters, one by one and two by two."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._parameter_selection import leaf_indices
from .._validation import finite, positive
from ._style import INK, dash, look, module, new_figure


if TYPE_CHECKING:
    import numpy.typing as npt


#: Reach of the axes, in standard deviations of the widest outcome.
_REACH = 3.2
#: Characters that fit beside a panel.
_WIDTH = 15
#: Outcomes that are drawn over each other: blue, red, sand, green.
_INKS = ("#4477AA", "#CC6677", "#DDAA33", "#117733")


class _Cloud(NamedTuple):
    """A Gaussian in the parameters that are drawn."""

    label: str | None
    center: np.ndarray
    covariance: np.ndarray
    ink: str
    dash: str

    @property
    def stderr(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariance))


class _Scale(NamedTuple):
    """Scale of an axis: (value − origin) / 10^exponent, up to `reach`."""

    origin: np.ndarray
    exponent: np.ndarray
    reach: np.ndarray
    labels: Sequence[str]

    def shown(self, value: np.ndarray, which: Any) -> np.ndarray:
        return (value - self.origin[which]) / 10.0 ** self.exponent[which]


def corner(
    outcome: Any,
    *,
    names: Any = None,
    truths: Any = None,
    units: Any = None,
    labels: Sequence[str] | None = None,
    ax: Any = None,
) -> "npt.NDArray[np.object_]":
    r"""Draw what a fit or a forecast knows of its parameters, alone and in pairs.

    Ellipses of one and two standard deviations, $\Delta\chi^2 = 1$ and 4, whose shadows
    on the axes are those of each parameter with all others free (39 % and 86 % of the
    probability in two dimensions); on the diagonal the density of each. They are drawn
    from the covariance and are exact: no samples are taken.

    ```python
    def line(t):
        return lambda model: model["height"] + model["slope"] * t

    model, noise = {"height": 1.0, "slope": 1.0}, inference.Gaussian(0.1)
    now = ds.fisher(line(np.linspace(0.0, 1.0, 20)), model, noise=noise)
    later = now + ds.fisher(line(np.linspace(2.0, 3.0, 20)), model, noise=noise)
    grid = plots.corner({"now": now, "in two years": later}, truths=1.0)
    grid[0, 0].figure.savefig("corner.png")
    ```

    **Arguments**

    - `outcome`: a `Fit`, a `Fisher`, or anything with `names` and `covariance`; or a
        dict from label to these, drawn over each other. A fit lies at its values, a
        forecast at `truths`, or where the fit lies that stands before it.
    - `names`: which parameters, those of a leaf by its path, "bodies.masses"; None
        draws all.
    - `truths`: a number for each parameter drawn, or one for all; marked by lines, and
        the axes count from there.
    - `units`: values, errors and covariances are divided by these, one for each
        parameter drawn; `truths` are in these units.
    - `labels`: for the axes; None takes the names.
    - `ax`: an empty Matplotlib figure or subfigure to draw into, or an array of empty
        axes, shape (parameter, parameter), `plt.subplots(5, 5)[1]` say; None makes a
        figure.

    **Returns:** the axes, shape (parameter, parameter); those above the diagonal are
        hidden.

    **Good values:** up to twelve parameters.

    **Raises:** `ValueError` for names that no parameter has, for parameters without a
    finite error bar, and for lengths that do not fit; `ImportError` with what to
    install where matplotlib is missing.

    **Limits:** Gaussian uncertainties, as fits and forecasts report them (mathematics);
        samples of a posterior are for the package `corner`.
    """
    outcomes = outcome if isinstance(outcome, Mapping) else {None: outcome}
    first, *_ = outcomes.values()
    paths = list(first.names)
    if names is not None:
        paths = [paths[i] for i in leaf_indices(paths, names)]
    units = positive("units", finite("units", 1.0 if units is None else units))
    units = np.broadcast_to(np.asarray(units, float), len(paths))
    if truths is not None:
        truths = finite("truths", truths)
        truths = np.broadcast_to(np.asarray(truths, float), len(paths))
    labels = paths if labels is None else labels
    labels = [label for label, _ in zip(labels, paths, strict=True)]
    clouds = _clouds(outcomes, paths, units, truths)
    scale = _scale(clouds, truths, labels)
    grid = _grid(ax, labels)
    _draw(grid, clouds, scale, marked=truths is not None)
    return grid


def _grid(ax: Any, labels: Sequence[str]) -> "npt.NDArray[np.object_]":
    """Axes in rows and columns, one of each for every parameter."""
    count = len(labels)
    if ax is None:
        wide = max(len(_lines(label)) for label in labels)
        size = 1.6 + (0.95 + 0.12 * (wide - 1)) * count
        ax = new_figure((size, size))
    if hasattr(ax, "subplots"):
        with look():
            return ax.subplots(count, count, squeeze=False)
    grid = np.asarray(ax, object)
    # One pair of axes is enough for one parameter.
    grid = grid.reshape(1, 1) if grid.ndim == 0 else grid
    if grid.shape != (count, count):
        raise ValueError(
            f"ax must be an empty figure, or axes of shape ({count}, {count}), got "
            f"{type(ax).__name__} of shape {grid.shape}"
        )
    return grid


def _clouds(
    outcomes: Mapping[Any, Any], names: list[str], units: np.ndarray, truths
) -> list[_Cloud]:
    clouds: list[_Cloud] = []
    for number, (label, outcome) in enumerate(outcomes.items()):
        covariance = np.asarray(outcome.covariance)
        if covariance.ndim != 2:
            raise ValueError(
                "outcome must be one, got a batch; one of them is "
                "jax.tree.map(lambda x: x[0], outcome)"
            )
        where = [outcome.names.index(name) for name in names]
        covariance = covariance[np.ix_(where, where)]
        for name, variance in zip(names, np.diagonal(covariance), strict=True):
            if not 0 < variance < np.inf:
                raise ValueError(
                    f"{name} has no finite error bar; leave it out by names=[...], or "
                    "fix it before: fisher.fix(...)"
                )
        covariance = covariance / units[:, None] / units[None, :]
        center = clouds[0].center if clouds else truths
        if hasattr(outcome, "values"):
            center = np.asarray(outcome.values)[where] / units
        center = np.zeros(len(names)) if center is None else center
        style = _INKS[number % len(_INKS)], dash(number)
        clouds.append(_Cloud(label, center, covariance, *style))
    return clouds


def _scale(clouds: list[_Cloud], truths, labels: Sequence[str]) -> _Scale:
    origin = clouds[0].center if truths is None else truths
    widest = np.max([cloud.stderr for cloud in clouds], axis=0)
    ends = [np.abs(cloud.center - origin) + _REACH * widest for cloud in clouds]
    reach = np.max(ends, axis=0)
    exponent = np.floor(np.log10(reach)).astype(int)
    # Ones and tens read better as they are.
    exponent = np.where(exponent == 1, 0, exponent)
    return _Scale(origin, exponent, reach, labels)


def _draw(grid: Any, clouds: list[_Cloud], scale: _Scale, *, marked: bool):
    figure = grid[0, 0].figure
    mark = {"color": INK, "linewidth": 0.7, "linestyle": (0, (4, 3)), "alpha": 0.7}
    for (row, column), axes in np.ndenumerate(grid):
        if column > row:
            axes.set_visible(False)
            continue
        _dress(axes, scale, row, column)
        if marked:
            axes.axvline(0, **mark)
        if marked and row != column:
            axes.axhline(0, **mark)
        for cloud in clouds:
            if row == column:
                _draw_density(axes, cloud, scale, row)
            else:
                _draw_ellipses(axes, cloud, scale, (column, row))
    figure.align_labels()
    handles = grid[0, 0].get_legend_handles_labels()
    if handles[1]:
        figure.legend(*handles, loc="upper right", frameon=False, fontsize="large")


def _draw_density(axes: Any, cloud: _Cloud, scale: _Scale, which: int):
    sd = cloud.stderr[which]
    x = cloud.center[which] + sd * np.linspace(-4, 4, 161)
    height = np.exp(-0.5 * np.square((x - cloud.center[which]) / sd))
    x = scale.shown(x, which)
    style = {"color": cloud.ink, "linestyle": cloud.dash}
    axes.plot(x, height, linewidth=1.1, label=cloud.label, **style)
    axes.fill_between(x, height, color=cloud.ink, alpha=0.15, linewidth=0)


def _draw_ellipses(axes: Any, cloud: _Cloud, scale: _Scale, pair: tuple[int, int]):
    which = np.array(pair)
    block = cloud.covariance[np.ix_(which, which)]
    sd = np.sqrt(np.diagonal(block))
    # The root is that of the correlation: two units may differ by more digits than
    # a float has.
    correlation = block / np.outer(sd, sd) + 1e-14 * np.eye(2)
    root = sd[:, None] * np.linalg.cholesky(correlation)
    angle = np.linspace(0, 2 * np.pi, 121)
    circle = root @ np.stack([np.cos(angle), np.sin(angle)])
    for reach, depth in ((2, 0.12), (1, 0.3)):
        outline = cloud.center[which, None] + reach * circle
        x, y = scale.shown(outline.T, which).T
        axes.fill(x, y, facecolor=cloud.ink, alpha=depth, linewidth=0)
        axes.plot(x, y, color=cloud.ink, linestyle=cloud.dash, linewidth=0.8)


def _dress(axes: Any, scale: _Scale, row: int, column: int):
    """Limits, ticks and labels of the panel at `row` and `column`."""
    ticker = module("matplotlib.ticker")
    last = len(scale.labels) - 1
    reach = scale.reach / 10.0**scale.exponent
    axes.set_xlim(-reach[column], reach[column])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(3, symmetric=True, prune="both"))
    axes.tick_params(labelsize="small", length=2.5)
    if row == last:
        axes.set_xlabel(_label(scale, column))
    else:
        axes.set_xticklabels([])
    if row == column:
        axes.set_ylim(0, 1.15)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        # Long names stand at the axes only, where they are broken into lines.
        if all(len(label) <= _WIDTH for label in scale.labels):
            axes.set_title(scale.labels[row], loc="center")
        return
    axes.set_ylim(-reach[row], reach[row])
    axes.yaxis.set_major_locator(ticker.MaxNLocator(3, symmetric=True, prune="both"))
    if column == 0:
        axes.set_ylabel(_label(scale, row))
    else:
        axes.set_yticklabels([])


def _label(scale: _Scale, which: int) -> str:
    exponent = scale.exponent[which]
    unit = f"\n[$10^{{{exponent}}}$]" if exponent else ""
    origin = scale.origin[which]
    shift = f" − {origin:.4g}" if origin else ""
    lines = _lines(scale.labels[which])
    apart = "\n" if len(lines[-1] + shift) > _WIDTH else ""
    return "\n".join(lines) + apart + (shift.strip() if apart else shift) + unit


def _lines(text: str) -> list[str]:
    """Lines of at most `_WIDTH` characters, broken where the parts of a path meet."""
    if "$" in text or len(text) <= _WIDTH:
        return [text]
    lines = [""]
    for part in re.findall(r"\[[^\]]*\]|[^.\[_ ]*[._ ]|[^.\[_ ]+", text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > _WIDTH:
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines]
