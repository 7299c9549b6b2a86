"""`BodyAxes`: names of the axes of positions and velocities."""

from typing import Any

import equinox as eqx
import jax

from .._extras import Variable
from ..simulations import AbstractStateAxes
from ._bodies import State


class BodyAxes(AbstractStateAxes):
    """Axes of an N-body `State`: bodies by their names, components x, y and z.

    ```python
    axes = nbody.BodyAxes(("Sun", "Jupiter", "Saturn", "Uranus", "Neptune"))
    trajectory = ds.simulate(problems.outer_solar_system(), [0.0, 10.0])
    axes.select(trajectory.states, "Saturn")  # as trajectory["Saturn"]
    axes.columns(trajectory.states).keys()
    ```

    `trajectory["Earth"]` has the states of that body; `Trajectory.to_xarray` has
    `positions` and `velocities` along (time, body, axis), and `Trajectory.to_dataframe`
    a row for each time and body, with columns x, y, z, vx, vy, vz.

    **Arguments**

    - `names`: one a body, test particles last; none numbers them in tables.
    """

    names: tuple[str, ...] = eqx.field(static=True)

    def variables(self, states: State, leading: int = 0) -> dict[str, Variable]:
        del leading
        axes = "body", "axis"
        return {
            "positions": (axes, states.positions),
            "velocities": (axes, states.velocities),
        }

    def coordinates(self) -> dict[str, Any]:
        known = {"body": list(self.names)} if self.names else {}
        return {**known, "axis": ["x", "y", "z"]}

    def columns(self, states: State, leading: int = 0) -> dict[str, Variable]:
        del leading
        parts = {"": states.positions, "v": states.velocities}
        return {
            f"{prefix}{axis}": (("body",), part[..., i])
            for prefix, part in parts.items()
            for i, axis in enumerate("xyz")
        }

    def select(self, states: State, name: str) -> State:
        row = self.names.index(name)
        return jax.tree.map(lambda a: a[..., row, :], states)
