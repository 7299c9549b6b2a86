"""`trajectory`: the picture that the kind of its states asks for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..nbody import BodyAxes
from ..pde import FieldAxes
from ..simulations import Trajectory
from ._field import field
from ._field_series import check_one_trajectory
from ._orbits import orbits
from ._plot_options import check_options
from ._slices import slices
from ._space_time import space_time
from ._state_lines import state_lines


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
