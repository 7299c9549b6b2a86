"""`orbits`: the paths of bodies, in a plane or in space."""

import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._validation import instance, one_of
from ..nbody import Elements, NBody, State
from ..simulations import Trajectory
from ._series import checked_numbers
from ._style import axes_or_new, color, module


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.text


#: Axes that are drawn to the right and up.
PLANES = tuple(map("".join, itertools.permutations("xyz", 2)))
#: From this turn between outputs on, 6 a period, a path is no picture of an orbit.
_TURN = 1.0


def orbits(
    trajectory: Any,
    *,
    names: Sequence[str] | None = None,
    plane: str = "xy",
    origin: str | int | None = None,
    osculating: Any = None,
    unit: str | None = None,
    colors: Sequence[str] | None = None,
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    """Draw the paths of bodies in a plane or in space, a dot where each one ends.

    ```python
    system = problems.outer_solar_system()
    trajectory = ds.simulate(system, jnp.linspace(0.0, 1000.0, 200))
    plots.orbits(trajectory, unit="au")
    plots.orbits(trajectory, plane="xyz", origin="Sun", osculating=system)
    ```

    **Arguments**

    - `trajectory`: the `Trajectory` of an `NBody`, its states, or positions of shape
        (time, body, 3), as NumPy or JAX arrays; a length.
    - `names`: a label for each body, written beside its dot; None takes those of the
        trajectory, if it has any.
    - `plane`: the components that are drawn, "xy" for x to the right and y up, "xz",
        "yz"; "xyz" draws in three dimensions.
    - `origin`: the name or number of the body that the others are seen from; None
        leaves positions as they are.
    - `osculating`: the `NBody`, with whose masses dashed conics are drawn through the
        positions at the last time: the ellipse, or arc of a hyperbola, that each body
        would follow from there, were it alone with its primary. The primary is the
        heavier body about which it is bound the tightest, or else the heaviest.
    - `unit`: of the lengths, for the labels of the axes, "au" say.
    - `colors`: one for each body; None takes the house's.
    - `ax`: Matplotlib axes to draw into, those of "xyz" made with
        `projection="3d"`; None makes a figure.

    **Returns:** the axes; `ax.figure.savefig("orbits.png")` writes them.

    **Good values:** one output for every 1/50 of the shortest period, or chords show.

    **Raises:** `ValueError` for positions of another shape, not a name for each body,
        an origin that is none of them, osculating orbits of states without velocities,
        and axes of another dimension; `ImportError` with what to install where
        Matplotlib is missing.

    **Limits:** primaries are chosen two by two: of a planet about a close pair of stars
    the conic is that about one of them (convenience).
    """
    states = trajectory.states if isinstance(trajectory, Trajectory) else trajectory
    positions = states.positions if isinstance(states, State) else states
    positions = checked_numbers("positions", positions)
    if positions.ndim != 3 or positions.shape[2] != 3:
        raise ValueError(
            f"positions must have shape (time, body, 3), got {positions.shape}; orbits "
            "need the trajectory that simulate returns, of more than one time"
        )
    bodies = positions.shape[1]
    if names is None and isinstance(trajectory, Trajectory):
        names = trajectory.names or None
    one_of("plane", plane, (*PLANES, "xyz"))
    components = ["xyz".index(letter) for letter in plane]
    space = len(plane) == 3
    ax = axes_or_new(ax, (5.0, 4.4), "3d") if space else axes_or_new(ax, (5.6, 5.6))
    conics: dict[int, np.ndarray] = {}
    if osculating is not None:
        conics = _osculating_conics(osculating, states)
    after = "" if unit is None else f" [{unit}]"
    if origin is not None:
        if isinstance(origin, str):
            one_of("origin", origin, names or ())
            origin = list(names or ()).index(origin)
        conics = {i: conic - positions[-1, origin] for i, conic in conics.items()}
        positions = positions - positions[:, [origin]]
        after = f" from {names[origin] if names else f'body {origin % bodies}'}{after}"
    _warn_of_chords(positions)
    for body, name in zip(range(bodies), names or bodies * [""], strict=True):
        ink = color(body) if colors is None else colors[body]
        path = positions[:, body, components]
        ax.plot(*path.T, color=ink, linewidth=0.9, solid_capstyle="round")
        ax.plot(*path[-1:].T, "o", color=ink, markersize=4.5)
        if name:
            write_beside(ax, path[-1], name, ink)
        if body in conics:
            conic = conics[body][:, components]
            ax.plot(*conic.T, color=ink, linewidth=0.8, linestyle=(0, (4, 3)))
    label_orbits(ax, plane, after)
    return ax


def _warn_of_chords(positions: np.ndarray):
    """Warn of so few outputs a period that straight lines draw other orbits."""
    steps = np.diff(positions, axis=0)  # (time, body, axis)
    lengths = np.linalg.norm(steps, axis=-1)
    # A body that hardly moves turns by its rounding errors.
    moves = lengths.min(axis=0, initial=np.inf) > 1e-3 * lengths.max(initial=0.0)
    if len(steps) < 3 or not np.any(moves):
        return
    steps, lengths = steps[:, moves], lengths[:, moves]
    along = np.sum(steps[1:] * steps[:-1], axis=-1) / (lengths[1:] * lengths[:-1])
    turn = np.median(np.arccos(np.clip(along, -1, 1)), axis=0).max()
    if turn > _TURN:
        warnings.warn(
            f"orbits are drawn through outputs between which one turns by "
            f"{np.degrees(turn):.0f} degrees, and chords show; simulate more times, "
            "50 a period say",
            stacklevel=4,
        )


def label_orbits(ax: Any, plane: str, after: str):
    """Label the axes, and give them one scale."""
    for axis, component in zip("xyz", plane, strict=False):
        ax.set(**{f"{axis}label": component + after})
    if len(plane) == 2:
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.08)
        return
    lower, upper = np.transpose([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    # Flat systems keep some height, in which their ticks have room.
    sides = np.maximum(upper - lower, 0.4 * np.max(upper - lower))
    tall = sides[2] > max(sides[:2])
    for axis, middle, side in zip("xyz", (lower + upper) / 2, sides, strict=True):
        ax.set(**{f"{axis}lim": (middle - side / 2, middle + side / 2)})
        own = getattr(ax, f"{axis}axis")
        own.set_major_locator(module("matplotlib.ticker").MaxNLocator(4))
        own.labelpad = 5 if tall and axis == "z" else 0
    # Labels stand outside of what a layout counts as the axes' own; tall boxes reach
    # farther down.
    ax.set_box_aspect(sides, zoom=0.72 if tall else 0.8)
    ax.tick_params(labelsize="small", pad=-1)


def write_beside(
    ax: Any, point: np.ndarray, name: str, ink: str
) -> "matplotlib.text.Text":
    """Write a name beside a point of a plane or of space."""
    effects = module("matplotlib.patheffects")
    style = {
        "color": ink,
        "fontsize": "small",
        "path_effects": [effects.withStroke(linewidth=2.5, foreground="white")],
    }
    if len(point) == 3:
        return ax.text(*point, f" {name}", **style)
    return ax.annotate(name, tuple(point), (5, 4), textcoords="offset points", **style)


#: Points of a conic.
_POINTS = 241


def _osculating_conics(system: Any, states: Any) -> dict[int, np.ndarray]:
    """Points (point, 3) of the orbit of each body about its primary at the last time.

    An ellipse begins and ends at the body; a hyperbola passes through it. The body
    without a primary, which is the heaviest, has none.
    """
    instance("osculating", system, NBody, "the NBody that was simulated")
    instance("osculating needs velocities: states", states, State, "simulate returns")
    x, v = (np.asarray(a, float)[-1] for a in (states.positions, states.velocities))
    masses, particles = np.asarray(system.bodies.masses, float), system.test_particles
    massless = 0 if particles is None else len(particles.positions)
    if len(x) not in (masses.size, masses.size + massless):
        raise ValueError(
            f"osculating must be the NBody of these states, got one of {masses.size} "
            f"bodies for states of {len(x)}"
        )
    masses, G = np.pad(masses, (0, len(x) - masses.size)), float(system.gravity.G)
    primary = _primaries(G * masses, x, v)
    bodies = np.flatnonzero(primary >= 0)
    if bodies.size == 0:
        return {}
    center = primary[bodies]
    gm = G * (masses[bodies] + masses[center])
    orbit = Elements.from_state(x[bodies] - x[center], v[bodies] - v[center], gm)
    e, a = np.asarray(orbit.eccentricity), np.asarray(orbit.semi_major_axis)
    if not np.all(np.isfinite(a)) or np.any(np.abs(e - 1) < 1e-12):
        raise ValueError(
            "osculating needs ellipses or hyperbolas at the last time, got a fall "
            "through the center or a parabola; end the trajectory at another time"
        )
    f0 = np.asarray(orbit.true_anomaly)
    f = np.stack([_anomalies(*pair) for pair in zip(e, f0, strict=True)], axis=1)
    along = eqx.tree_at(lambda orbit: orbit.true_anomaly, orbit, jnp.asarray(f))
    points = np.asarray(along.state(gm)[0]) + x[center]
    return {int(body): points[:, i] for i, body in enumerate(bodies)}


def _primaries(gm: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Number of the primary of each body, -1 for the heaviest of all."""
    heaviest = int(np.argmax(gm))
    primaries = np.full(gm.size, -1)
    for i in range(gm.size):
        # The first of equal masses counts as the heavier.
        heavier = (gm > gm[i]) | ((gm == gm[i]) & (np.arange(gm.size) < i) & (gm > 0))
        others = np.flatnonzero(heavier)
        if others.size == 0:
            continue
        r = np.linalg.norm(x[others] - x[i], axis=1)
        speed = np.linalg.norm(v[others] - v[i], axis=1)
        # 1/a, positive where the pair is bound.
        closeness = 2 / r - speed**2 / (gm[others] + gm[i])
        tightest = int(np.argmax(closeness))
        primaries[i] = others[tightest] if closeness[tightest] > 0 else heaviest
    return primaries


def _anomalies(e: float, f: float) -> np.ndarray:
    """True anomalies along a conic, even in the eccentric anomaly, through f."""
    if e < 1:
        ratio = np.sqrt((1 - e) / (1 + e))
        start = 2 * np.arctan2(ratio * np.sin(f / 2), np.cos(f / 2))
        half = (start + np.linspace(0, 2 * np.pi, _POINTS)) / 2
        return 2 * np.arctan2(np.sin(half), ratio * np.cos(half))
    ratio = np.sqrt((e - 1) / (e + 1))
    here = 2 * np.arctanh(ratio * np.tan(f / 2))
    # A little beyond the body, and four times as far as the pericenter.
    farthest = max(1.1 * (e * np.cosh(here) - 1), 4 * (e - 1))
    end = np.arccosh((1 + farthest) / e)
    h = np.sort(np.append(np.linspace(-end, end, _POINTS - 1), here))
    return 2 * np.arctan(np.tanh(h / 2) / ratio)
