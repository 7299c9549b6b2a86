"""`conservation`: relative errors of conserved quantities over time."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nbody, pde, verify
from .._validation import instance
from ._field_series import checked_trajectory
from ._series import draw_floor, ink, legend_above
from ._style import axes_or_new, dash


if TYPE_CHECKING:
    import matplotlib.axes


#: Word of the legend for the level of rounding.
_EPSILON = "machine epsilon"


def conservation(
    trajectory: Any,
    simulation: Any = None,
    *,
    quantities: Mapping[str, Callable[[Any], Any]] | None = None,
    label: str = "time",
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw how far conserved quantities have moved since the first output.

    $$\delta(t) = |Q(t) - Q(0)| \,/\, \max_t |Q(t)|$$

    Of an `NBody` energy, momentum and angular momentum; the vectors relative to
    $\max_t \sum_i m_i |v_i|$ and $\max_t \sum_i m_i |x_i \times v_i|$, as their sums
    may be zero. Of a field the `pde.integral` of every channel, relative to
    $\max_t \int |u|\,dx$, and the `pde.energy`, where its equation has one.

    The axis of errors is logarithmic. A dotted line marks the machine epsilon; what has
    not changed by a single bit is drawn on the lower edge, at "0".

    ```python
    system, times = problems.outer_solar_system(), jnp.linspace(0.0, 1000.0, 100)
    method = ds.Method(integrators.Leapfrog(), step=1.0)
    trajectory = ds.simulate(system, times, method)
    plots.conservation(trajectory, system, label="time [yr / 2π]")
    ```

    **Arguments**

    - `trajectory`: of times of shape (time,).
    - `simulation`: what was simulated, an `NBody`, `Evolution` or `IncompressibleFlow`;
        None beside `quantities`.
    - `quantities`: names and functions of one state that return a number or a vector,
        drawn in place of these, of any simulation: `{"charge": charge}`.
    - `label`: of the axis of times, with their unit.
    - `ax`: Matplotlib axes to draw into, those of another run for instance; None makes
        a figure.

    **Returns:** the axes.

    **Good values:** a symplectic method keeps the energy within a band, others drift.

    **Raises:** `ValueError` for fewer than two times, or another simulation without
        `quantities`; `ImportError` with what to install where Matplotlib is missing.

    **Limits:** a quantity is drawn whether forces, sources and boundaries let it stay
    or not: `nbody.energy` stays under `Gravity` alone (convenience).
    """
    times = np.asarray(checked_trajectory(trajectory, least=2).times)
    if quantities is not None:
        drifts = {
            name: np.asarray(verify.relative_drift(quantity, trajectory))
            for name, quantity in quantities.items()
        }
    elif isinstance(simulation, nbody.NBody):
        drifts = _nbody_drifts(trajectory.states, simulation)
    else:
        kinds = pde.Evolution | pde.IncompressibleFlow
        example = "an NBody or an Evolution, or be named by quantities={'energy': f}"
        instance("simulation", simulation, kinds, example)
        drifts = _field_drifts(trajectory.states, simulation)
    ax = axes_or_new(ax, (4.8, 3.2))
    # The first output is where the change is counted from.
    _draw(ax, times[1:], {name: drift[1:] for name, drift in drifts.items()})
    ax.set(xlabel=label, ylabel="relative change")
    return ax


def _nbody_drifts(states: Any, system: nbody.NBody) -> dict[str, np.ndarray]:
    masses = np.asarray(system.bodies.masses)
    x, v = (
        np.asarray(a)[:, : masses.size] for a in (states.positions, states.velocities)
    )
    pushes = np.sum(masses * np.linalg.norm(v, axis=-1), -1)
    turns = np.sum(masses * np.linalg.norm(np.cross(x, v), axis=-1), -1)
    return {
        "energy": _drift(nbody.energy(system, states)),
        "momentum": _drift(nbody.momentum(system, states), pushes),
        "angular momentum": _drift(nbody.angular_momentum(system, states), turns),
    }


def _field_drifts(states: Any, simulation: Any) -> dict[str, np.ndarray]:
    sums = np.asarray(pde.integral(states, simulation.grid))
    sizes = np.asarray(pde.integral(np.abs(states), simulation.grid))
    channels = sums.shape[1]
    names = [f"integral of channel {i}" for i in range(channels)]
    names = ["integral"] if channels == 1 else names
    drifts = {name: _drift(sums[:, i], sizes[:, i]) for i, name in enumerate(names)}
    try:
        return {"energy": _drift(pde.energy(simulation, states)), **drifts}
    except ValueError:
        # The states fit, as they had integrals: it is the equation that has none.
        return drifts


def _drift(values: Any, sizes: Any = None) -> np.ndarray:
    """|Q(t) − Q(0)| over the largest size, which is that of Q if none is given."""
    values = np.asarray(values)
    values = values.reshape(len(values), -1)
    sizes = np.linalg.norm(values, axis=1) if sizes is None else sizes
    # A run that failed ends in NaN, where its lines end.
    largest = np.nanmax(sizes)
    return np.linalg.norm(values - values[0], axis=1) / (largest if largest else 1.0)


def _draw(ax: Any, times: np.ndarray, drifts: dict[str, np.ndarray]):
    changes = np.concatenate(list(drifts.values()))
    epsilon = np.finfo(np.result_type(*drifts.values(), np.float32)).eps
    least = np.min(changes, where=changes > 0, initial=epsilon)
    floor = 10.0 ** (np.floor(np.log10(least)) - 1)
    ax.set_yscale("log")
    _, labels = ax.get_legend_handles_labels()
    first = len([label for label in labels if label != _EPSILON])
    for number, (name, drift) in enumerate(drifts.items(), first):
        shown = np.where(drift == 0, floor, drift)
        line = {"color": ink(number), "linestyle": dash(number), "linewidth": 1.1}
        ax.plot(times, shown, label=name, clip_on=False, **line)
    if _EPSILON not in labels:
        draw_floor(ax, epsilon, _EPSILON)
    legend_above(ax, columns=2)
    if np.any(changes == 0):
        # The lower edge, which stands for zero, is among the ticks.
        ax.set_ylim(bottom=floor)
        lowest, highest = (round(np.log10(end)) for end in (floor, ax.get_ylim()[1]))
        step = max(1, round((highest - lowest) / 5))
        exponents = range(lowest + step, highest + 1, step)
        ticks = [floor, *(10.0**exponent for exponent in exponents)]
        ax.set_yticks(ticks, ["0", *(f"$10^{{{exponent}}}$" for exponent in exponents)])
        ax.minorticks_off()
