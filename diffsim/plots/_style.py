"""New axes in the house's look, and matplotlib only when something is drawn."""

import contextlib
from collections.abc import Iterator
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from .._extras import optional_module
from .._validation import instance, one_of


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


#: The colors of bodies and series, after Paul Tol's "muted" scheme, which the
#: color-blind tell apart; its light blue is darkened to be seen as a thin line.
COLORS = (
    "#DDAA33",
    "#882255",
    "#CC6677",
    "#44AA99",
    "#AA4499",
    "#117733",
    "#332288",
    "#55AACC",
    "#4477AA",
    "#999933",
    "#777777",
    "#222222",
)
INK = "#333333"
#: Colors of series and lines that are not bodies: those that differ most, in grey too,
#: come first, blue, wine, green, sand.
LINE_COLORS = tuple(COLORS[i] for i in (8, 1, 5, 0, 2, 3, 4, 6, 7, 9, 10, 11))
#: Markers and dashes go with the colors, so that series differ in grey as well.
_MARKERS = "os^Dv"
_DASHES = ("-", "--", "-.", ":")

_LOOK = MappingProxyType(
    {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.8,
        "axes.prop_cycle": f"cycler('color', {LINE_COLORS})",
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.titlesize": 11,
        "figure.dpi": 100,
        "font.size": 9,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "savefig.dpi": 160,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
)


def module(name: str) -> ModuleType:
    """`matplotlib` or a part of it; a sentence where it is not installed."""
    return optional_module(name, "diffsim.plots draws with")


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Figures and axes made inside have the look of these plots; nothing else changes.

    ```python
    import matplotlib.pyplot as plt

    with plots.look():
        figure, axes = plt.subplots(1, 2)
    system = problems.figure_eight()
    trajectory = ds.simulate(system, jnp.linspace(0.0, 6.3, 100))
    plots.orbits(trajectory, ax=axes[0])
    plots.conservation(trajectory, system, ax=axes[1])
    ```
    """
    with module("matplotlib").rc_context(dict(_LOOK)):
        yield


def sheet(size: tuple[float | int, float | int]) -> "matplotlib.figure.Figure":
    """An empty figure for a file, `size` in inches; it needs no display.

    ```python
    figure = plots.sheet((6, 3))
    t = np.linspace(0.0, 10.0, 400)
    with plots.look():  # of the axes, too
        axes = figure.subplots()
    axes.plot(t, np.exp(-t / 3) * np.sin(2 * np.pi * t))
    figure.savefig("oscillation.png")
    ```
    """
    with look():
        return module("matplotlib.figure").Figure(figsize=size, layout="constrained")


def new_figure(
    size: tuple[float | int, float | int],
) -> "matplotlib.figure.Figure":
    """An empty figure that pyplot knows, so that `plt.show()` shows it."""
    with look():
        return module("matplotlib.pyplot").figure(figsize=size, layout="constrained")


def axes_or_new(
    ax: Any, size: tuple[float | int, float | int], projection: str | None = None
) -> "matplotlib.axes.Axes":
    """`ax` if they are axes of this projection, "3d" say; for None new ones."""
    if ax is None:
        with look():
            return new_figure(size).add_subplot(projection=projection)
    instance("ax", ax, module("matplotlib.axes").Axes, "plt.subplots()[1]")
    one_of("the projection of ax", ax.name, (projection or "rectilinear",))
    return ax


def color(number: int) -> str:
    """The color of a body, a series or an experiment; they repeat after twelve."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """The marker of a series; they repeat after five."""
    return _MARKERS[number % len(_MARKERS)]


def dash(number: int) -> str:
    """The line style of a series; they repeat after four."""
    return _DASHES[number % len(_DASHES)]


def legend(axes: "matplotlib.axes.Axes", **options: Any):
    """A legend beside axes, where it hides nothing, if their figure makes room."""
    if axes.figure.get_layout_engine() is not None:
        options = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), **options}
    axes.legend(**options)
