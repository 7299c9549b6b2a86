"""Initial conditions from REBOUND and for it."""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_known
from ._forces import Gravity


if TYPE_CHECKING:
    import rebound


_GHOSTS = (
    *("N_ghost_x", "N_ghost_y", "N_ghost_z"),
    *("nghostx", "nghosty", "nghostz"),  # REBOUND 3
)

#: By attribute, the values with the same physics as here, and what that is.
_SAME_PHYSICS: dict[str, tuple[tuple[Any, ...], str]] = {
    "gravity": (
        ("basic", "compensated", "tree", "jacobi", "mercurius", "trace"),
        "it is Newton's, or none by NBody(bodies, forces, gravity=False)",
    ),
    "boundary": (("none",), "bodies move in unbounded space"),
    "collision": (("none",), "bodies are points that never collide"),
    **dict.fromkeys(_GHOSTS, ((0,), "no copies of the bodies attract")),
}
_HARD = {"softening": ((0,), "NBody.from_rebound(simulation) keeps it, Bodies do not")}


def particles_of(simulation: Any, *, softened: bool = True):
    """Masses, positions, velocities and names of one like `rebound.Simulation`."""
    particles = list(getattr(simulation, "particles", ()))
    if not particles:
        raise ValueError(
            "simulation must be a rebound.Simulation with particles, got "
            f"{simulation!r:.60}; rebound.Simulation(file) reads one from a file"
        )
    masses = np.array([p.m for p in particles])
    # Bodies alone cannot hold a softening.
    _check_same_physics(simulation, masses, _SAME_PHYSICS | ({} if softened else _HARD))
    positions = np.array([[p.x, p.y, p.z] for p in particles])
    velocities = np.array([[p.vx, p.vy, p.vz] for p in particles])
    names = [str(p.name) for p in particles if getattr(p, "name", None)]
    return masses, positions, velocities, names if len(names) == masses.size else None


def _check_same_physics(simulation: Any, masses: np.ndarray, physics: dict):
    for name, (same, here) in physics.items():
        value = getattr(simulation, name, same[0])
        if value not in same:
            raise ValueError(
                f"simulation has {name} = {value!r}, and here {here}; set "
                f"simulation.{name} = {same[0]!r} if that is meant"
            )
    # REBOUND's -1 is all of them.
    active = getattr(simulation, "N_active", -1)
    attracting = np.flatnonzero(masses[active:]) if active >= 0 else []
    if len(attracting):
        first = active + int(attracting[0])
        raise ValueError(
            f"simulation has N_active = {active}, and particle {first} beyond it has "
            f"the mass {masses[first]:g}, with which it would attract here; set the "
            "masses of test particles to zero"
        )
    if getattr(simulation, "_additional_forces", None):
        warnings.warn(
            "simulation has additional_forces, which are code of REBOUND and stay "
            "behind; give them again, NBody(system.bodies, (system.gravity, force))",
            # this function, particles_of, from_rebound, the caller
            stacklevel=4,
        )


def rebound_simulation(system: Any) -> "rebound.Simulation":
    """Build the simulation that `NBody.to_rebound` returns."""
    if any(not isinstance(force, Gravity) for force in system.forces):
        raise ValueError(
            "to_rebound needs Gravity alone, got other forces, which REBOUND knows "
            "nothing of; NBody(system.bodies, system.gravity) has none"
        )
    check_known("system", system)
    try:
        simulation = importlib.import_module("rebound").Simulation()
    except ImportError as error:
        raise ImportError("to_rebound needs REBOUND: pip install rebound") from error
    simulation.G, simulation.t = float(system.gravity.G), float(system.t0)
    simulation.softening = float(system.gravity.softening)
    x, v = (np.asarray(a, float).T for a in system.initial_state())
    massive = system.bodies.masses.size
    masses = np.pad(np.asarray(system.bodies.masses, float), (0, len(x) - massive))
    for i, row in enumerate(np.column_stack([masses, x, v])):
        columns = "m", "x", "y", "z", "vx", "vy", "vz"
        values: dict[str, Any] = dict(zip(columns, row, strict=True))
        if system.body_names is not None:
            values["name"] = system.body_names[i]
        simulation.add(**values)
    if len(x) > massive:
        simulation.N_active = massive
    return simulation
