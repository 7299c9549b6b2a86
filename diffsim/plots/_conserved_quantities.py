"""`conservation`: relative errors of conserved quantities over time."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nbody, pde, verify
from ..simulations import Trajectory
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
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            "trajectory must be what simulate returned, got "
            f"{type(trajectory).__name__}"
        )
    if np.size(trajectory.times) < 2:
        raise ValueError(
            "trajectory must have two times at least, got "
            f"{np.size(trajectory.times)}; run simulate at the epoch and later"
        )
    drifts = _drifts(trajectory, simulation, quantities)
    ax = axes_or_new(ax, (4.8, 3.2))
    _draw(ax, np.asarray(trajectory.times), drifts)
    ax.set(xlabel=label, ylabel="relative change")
    return ax


def _drifts(
    trajectory: Trajectory, simulation: Any, quantities: Any
) -> dict[str, np.ndarray]:
    if quantities is not None:
        return {
            name: np.asarray(verify.relative_drift(quantity, trajectory))
            for name, quantity in quantities.items()
        }
    if isinstance(simulation, nbody.NBody):
        return _nbody_drifts(trajectory.states, simulation)
    if isinstance(simulation, pde.Evolution | pde.IncompressibleFlow):
        return _field_drifts(trajectory.states, simulation)
    raise ValueError(
        "simulation must be an NBody, an Evolution or an IncompressibleFlow, got "
        f"{type(simulation).__name__}; name what it conserves: "
        "quantities={'energy': energy}"
    )


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
    found = {name: _drift(sums[:, i], sizes[:, i]) for i, name in enumerate(names)}
    try:
        energy = pde.energy(simulation, states)
    except ValueError:
        # The states fit, as they had integrals: it is the equation that has none.
        return found
    return {"energy": _drift(energy), **found}


def _drift(values: Any, sizes: Any = None) -> np.ndarray:
    """|Q(t) − Q(0)| over the largest size, which is that of Q if none is given."""
    values = np.asarray(values)
    values = values.reshape(len(values), -1)
    sizes = np.linalg.norm(values, axis=1) if sizes is None else sizes
    # A run that failed ends in NaN, where its lines end.
    largest = np.nanmax(sizes)
    return np.linalg.norm(values - values[0], axis=1) / (largest if largest else 1.0)


def _draw(ax: Any, times: np.ndarray, drifts: dict[str, np.ndarray]):
    # The first output is where the change is counted from.
    times, drifts = times[1:], {name: d[1:] for name, d in drifts.items()}
    changes = np.concatenate(list(drifts.values()))
    epsilon = np.finfo(np.result_type(*drifts.values(), np.float32)).eps
    seen = changes[changes > 0]
    least = min(epsilon, seen.min() if seen.size else epsilon)
    floor = 10.0 ** (np.floor(np.log10(least)) - 1)
    ax.set_yscale("log")
    _, known = ax.get_legend_handles_labels()
    drawn = len([label for label in known if label != _EPSILON])
    for number, (name, drift) in enumerate(drifts.items(), drawn):
        shown = np.where(drift == 0, floor, drift)
        line = {"color": ink(number), "linestyle": dash(number), "linewidth": 1.1}
        ax.plot(times, shown, label=name, clip_on=False, **line)
    if _EPSILON not in known:
        draw_floor(ax, epsilon, _EPSILON)
    legend_above(ax, columns=2)
    if np.any(changes == 0):
        _mark_zero(ax, floor)


def _mark_zero(ax: Any, floor: float):
    """Put the lower edge, which stands for zero, among the ticks."""
    ax.set_ylim(bottom=floor)
    lowest, highest = (round(np.log10(end)) for end in (floor, ax.get_ylim()[1]))
    step = max(1, round((highest - lowest) / 5))
    exponents = range(lowest + step, highest + 1, step)
    ticks = [floor, *(10.0**exponent for exponent in exponents)]
    ax.set_yticks(ticks, ["0", *(f"$10^{{{exponent}}}$" for exponent in exponents)])
    ax.minorticks_off()
