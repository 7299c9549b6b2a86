"""`trajectory`: the picture that the kind of its states asks for."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import check_axes
from ..nbody import BodyAxes
from ..pde import FieldAxes
from ..simulations import Trajectory
from ._axis_labels import Labels, plain_number
from ._field import field
from ._field_series import checked_trajectory
from ._orbits import orbits
from ._slices import slices
from ._space_time import space_time
from ._style import axes_or_new, color, dash, legend, look


if TYPE_CHECKING:
    import matplotlib.axes


#: Outputs from which colors over x and t show more than a line for each.
_MANY = 10
#: Entries of one array that are told apart, by a color, dashes and a name each.
_NAMED = 12
#: More lines than this are no picture of them.
_MOST = 500


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
    axes = checked_trajectory(trajectory).axes
    if isinstance(axes, BodyAxes):
        return orbits(trajectory, ax=ax, **options)
    if not isinstance(axes, FieldAxes):
        return state_lines(trajectory, ax=ax, **options)
    if axes.grid.ndim == 3:
        return slices(trajectory, ax=ax, **options)
    if axes.grid.ndim == 1 and "time" not in options:
        times = np.atleast_1d(trajectory.times)
        if times.size >= _MANY:
            return space_time(trajectory, ax=ax, **options)
        options = {"time": times, **options}
    return field(trajectory, ax=ax, **options)


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
    arrays = [(words[name], *_entries(trajectory, name)) for name in chosen]
    count = sum(len(entries) for _, entries, _ in arrays)
    if count > _MOST:
        raise ValueError(
            f"trajectory has {count} numbers in a state, too many for lines over time; "
            "choose arrays by names=..., or draw a field, plots.field(array, grid=...)"
        )
    times = np.atleast_1d(np.asarray(trajectory.times))
    style = {"linewidth": 1.4, "marker": "o" if times.size == 1 else None}
    number = 0
    with look():
        ax = axes_or_new(ax, (6.4, 3.8))
        for label, entries, values in arrays:
            if len(entries) > _NAMED:
                thin = style | {"linewidth": 0.6, "color": color(number)}
                lines = ax.plot(times, values, **thin)
                lines[0].set_label(f"{label}, {len(entries)} entries")
                number += 1
                continue
            for entry, line in zip(entries, values.T, strict=True):
                look_of_line = {"color": color(number), "linestyle": dash(number)}
                ax.plot(times, line, label=label + entry, **style, **look_of_line)
                number += 1
        ax.set(xlabel=words["time"], ylabel=arrays[0][0] if len(arrays) == 1 else "")
        if count > 1:
            legend(ax)
    return ax


def _entries(trajectory: Trajectory, name: str) -> tuple[list[str], np.ndarray]:
    """Names of the entries of an array, and their values, shape (time, entry)."""
    array = np.asarray(trajectory[name])
    array = array if np.ndim(trajectory.times) else array[None]
    named: list[Sequence[Any]] = [range(length) for length in array.shape[1:]]
    if (axes := trajectory.axes) is not None:
        leading = np.ndim(trajectory.times)
        variables = axes.variables(trajectory.states, leading)
        variables, coordinates = trajectory._labeled(variables)
        along, values = variables[name]
        check_axes({name: (along, values)}, coordinates)
        for i, axis in enumerate(along[leading:]):
            named[i] = [
                entry if isinstance(entry, str) else plain_number(entry)
                for entry in coordinates.get(axis, range(array.shape[1 + i]))
            ]
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
        named.append(("real", "imaginary"))
    entries = [
        f" [{', '.join(map(str, entry))}]" if entry else ""
        for entry in itertools.product(*named)
    ]
    return entries, array.reshape(len(array), -1)
