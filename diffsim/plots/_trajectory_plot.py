"""`trajectory`: the picture that the kind of its states asks for."""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import check_axes
from ..nbody import BodyAxes
from ..pde import FieldAxes
from ..simulations import Trajectory
from ._axis_labels import Labels, plain_number
from ._field import field
from ._field_series import check_one_trajectory
from ._orbits import orbits
from ._plot_options import check_options
from ._slices import slices
from ._space_time import space_time
from ._style import axes_or_new, color, legend, look


if TYPE_CHECKING:
    import matplotlib.axes


#: Outputs from which colors over x and t show more than a line for each.
_MANY = 10


def trajectory(
    trajectory: Any, *, ax: Any = None, **options: Any
) -> "matplotlib.axes.Axes | np.ndarray":
    """Draw a trajectory as its kind asks, as `trajectory.plot()` does.

    ```python
    times = jnp.linspace(0.0, 3.0, 40)
    plots.trajectory(ds.simulate(problems.figure_eight(), times))  # orbits
    plots.trajectory(ds.simulate(problems.kaps(), times))  # two lines
    ```

    Of bodies `orbits`; of a field in one dimension `space_time`, or a line each if
    there are fewer than 10 times, in two the map of `field` at the last time, in three
    `slices`; of other states each number over time, with a legend by name.

    **Arguments**

    - `trajectory`: a `Trajectory`.
    - `ax`: Matplotlib axes to draw into, three of them for `slices`; None makes a
        figure.
    - `options`: those of the function that draws; of other states `names`, of the
        arrays to draw, and `labels`, what to write instead of names.

    **Returns:** the axes, of `slices` three.

    **Raises:** `ValueError` for what is no trajectory, for a batch, and as the function
    that draws; `TypeError` for an option that it does not have.
    """
    check_one_trajectory(trajectory)
    draw = _function(trajectory, options)
    check_options(draw, options)
    if draw is field and _dimensions(trajectory) == 1:
        options = {"time": np.atleast_1d(trajectory.times), **options}
    return draw(trajectory, ax=ax, **options)


def _function(trajectory: Trajectory, options: dict[str, Any]) -> Callable[..., Any]:
    """The function that draws trajectories of this kind."""
    if isinstance(trajectory.axes, BodyAxes):
        return orbits
    if not isinstance(trajectory.axes, FieldAxes):
        return state_lines
    if _dimensions(trajectory) == 1:
        many = np.size(trajectory.times) >= _MANY and "time" not in options
        return space_time if many else field
    return field if _dimensions(trajectory) == 2 else slices


def _dimensions(trajectory: Trajectory) -> int:
    axes = trajectory.axes
    return axes.grid.ndim if isinstance(axes, FieldAxes) else 0


#: Entries of one array that are told apart, by a color, dashes and a name each.
_NAMED = 12
#: More lines than this are no picture of them.
_MOST = 500
# A print in grey tells dashes apart where it does not tell colors.
_DASHES = ("-", "--", "-.", ":")


def state_lines(
    trajectory: Trajectory,
    *,
    names: str | Sequence[str] | None = None,
    ax: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    """Draw each number in the states over time, with a legend by name.

    `names` are those of arrays in a state, of `trajectory.names`; None takes all.
    """
    chosen = trajectory.names if names is None else np.atleast_1d(names).tolist()
    words = Labels(labels, ("time", *trajectory.names))
    found = [(words[name], *_numbers(trajectory, name)) for name in chosen]
    count = sum(len(entries) for _, entries, _ in found)
    if count > _MOST:
        raise ValueError(
            f"trajectory has {count} numbers in a state, too many for lines over time; "
            "choose arrays by names=..., or draw a field, plots.field(array, grid=...)"
        )
    with look():
        ax = axes_or_new(ax, (6.4, 3.8))
        numbers = itertools.count()
        times = np.atleast_1d(np.asarray(trajectory.times))
        for label, entries, values in found:
            _draw(ax, times, label, entries, values, numbers)
        ax.set(xlabel=words["time"], ylabel=found[0][0] if len(found) == 1 else "")
        if count > 1:
            legend(ax)
    return ax


def _draw(
    ax: Any,
    times: np.ndarray,
    label: str,
    entries: list[str],
    values: np.ndarray,
    numbers: "itertools.count[int]",
):
    """Lines of one array: each its own color, of very many all the same."""
    look_of_line = {"linewidth": 1.4, "marker": "o" if times.size == 1 else None}
    if len(entries) > _NAMED:
        ink = color(next(numbers))
        lines = ax.plot(times, values, color=ink, **look_of_line | {"linewidth": 0.6})
        lines[0].set_label(f"{label}, {len(entries)} entries")
        return
    for entry, line in zip(entries, values.T, strict=True):
        number = next(numbers)
        dashes, ink = _DASHES[number % len(_DASHES)], color(number)
        ax.plot(times, line, dashes, color=ink, label=label + entry, **look_of_line)


def _numbers(trajectory: Trajectory, name: str) -> tuple[list[str], np.ndarray]:
    """Names of the entries of an array, and their values, shape (time, entry)."""
    array = np.asarray(trajectory[name])
    array = array if np.ndim(trajectory.times) else array[None]
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
        called = [("real", "imaginary")]
    else:
        called = []
    shape = array.shape[1:]
    known = _called(trajectory, name)
    known += [range(n) for n in shape[len(known) : len(shape) - len(called)]]
    entries = [
        f" [{', '.join(map(str, entry))}]" if entry else ""
        for entry in itertools.product(*known, *called)
    ]
    return entries, array.reshape(len(array), -1)


def _called(trajectory: Trajectory, name: str) -> list[Sequence[Any]]:
    """Names or places of the entries along each axis of an array, where known."""
    axes = trajectory.axes
    if axes is None:
        return []
    leading = np.ndim(trajectory.times)
    variables, known = trajectory._labeled(axes.variables(trajectory.states, leading))
    along, array = variables[name]
    check_axes({name: (along, array)}, known)
    return [
        [
            entry if isinstance(entry, str) else plain_number(entry)
            for entry in known[axis]
        ]
        if axis in known
        else range(length)
        for axis, length in zip(along[leading:], array.shape[leading:], strict=True)
    ]
