"""Initial conditions from REBOUND and for it."""

import importlib
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import is_traced
from ._forces import Gravity


if TYPE_CHECKING:
    import rebound


def particles_of(simulation: Any):
    """Masses, positions, velocities and names of one like `rebound.Simulation`."""
    _check_simulation(simulation)
    particles = list(simulation.particles)
    masses = np.array([p.m for p in particles])
    _check_same_physics(simulation, masses)
    positions = np.array([[p.x, p.y, p.z] for p in particles])
    velocities = np.array([[p.vx, p.vy, p.vz] for p in particles])
    names = [str(p.name) for p in particles if getattr(p, "name", None)]
    return masses, positions, velocities, names if len(names) == masses.size else None


def check_not_softened(simulation: Any):
    """Refuse a softening, which bodies alone cannot hold."""
    softening = getattr(simulation, "softening", 0.0)
    if softening != 0:
        raise ValueError(
            f"simulation has a softening of {softening:g}, which bodies cannot hold; "
            "NBody.from_rebound(simulation) keeps it, with G and the time"
        )


#: Ways of REBOUND to sum the same Newtonian gravity.
_NEWTONIAN = ("basic", "compensated", "tree", "jacobi", "mercurius", "trace")

#: In REBOUND 5 and 4, and in 3.
_GHOSTS = ("N_ghost_x", "N_ghost_y", "N_ghost_z", "nghostx", "nghosty", "nghostz")


def _check_simulation(simulation: Any):
    if not hasattr(simulation, "particles"):
        got = f"{simulation!r:.60}"
        raise ValueError(
            f"simulation must be a rebound.Simulation, got {got}; rebound.Simulation("
            "file) reads one from a file"
        )
    if not len(simulation.particles):
        raise ValueError(
            "simulation has no particles, and a run needs at least one; add them first"
        )


def _check_same_physics(simulation: Any, masses: np.ndarray):
    gravity = getattr(simulation, "gravity", "basic")
    if gravity not in _NEWTONIAN:
        raise ValueError(
            f'simulation has gravity = "{gravity}"; take Bodies.from_rebound while it '
            'is "basic", and NBody(bodies, forces, gravity=False)'
        )
    _check_unbounded(simulation)
    _check_active(simulation, masses)
    if getattr(simulation, "_additional_forces", None):
        warnings.warn(
            "simulation has additional_forces, which are code of REBOUND and stay "
            "behind; give them again, NBody(system.bodies, (system.gravity, force))",
            # this function, particles_of, from_rebound, the caller
            stacklevel=4,
        )


def _check_unbounded(simulation: Any):
    """Refuse walls, copies of the box, and particles that meet."""
    for name, what in (
        ("boundary", "bodies move in unbounded space"),
        ("collision", "bodies are points that never collide"),
    ):
        found = getattr(simulation, name, "none")
        if found != "none":
            raise ValueError(
                f'simulation has {name} = "{found}", and here {what}; set '
                f'simulation.{name} = "none" if that is meant'
            )
    ghosts = [name for name in _GHOSTS if getattr(simulation, name, 0)]
    if ghosts:
        raise ValueError(
            f"simulation has ghost boxes, {ghosts[0]} = "
            f"{getattr(simulation, ghosts[0])}, and here no copies of the bodies "
            f"attract; set simulation.{ghosts[0]} = 0 if that is meant"
        )


def _check_active(simulation: Any, masses: np.ndarray):
    # REBOUND's -1 is all of them.
    active = getattr(simulation, "N_active", -1)
    beyond = np.flatnonzero(masses[active:]) if active >= 0 else []
    if len(beyond):
        first = active + int(beyond[0])
        raise ValueError(
            f"simulation has N_active = {active}, and particle {first} beyond it has "
            f"the mass {masses[first]:g}, with which it would attract here; set the "
            "masses of test particles to zero"
        )


def rebound_simulation(system: Any) -> "rebound.Simulation":
    """Build the simulation that `NBody.to_rebound` returns."""
    if any(not isinstance(force, Gravity) for force in system.forces):
        raise ValueError(
            "to_rebound needs Gravity alone, got other forces, which REBOUND knows "
            "nothing of; NBody(system.bodies, system.gravity) has none"
        )
    if is_traced(system.bodies.positions) or is_traced(system.bodies.masses):
        raise ValueError(
            "to_rebound needs concrete bodies; call it outside jit and grad"
        )
    simulation = _rebound().Simulation()
    simulation.G, simulation.t = float(system.gravity.G), float(system.t0)
    simulation.softening = float(system.gravity.softening)
    x, v = (np.asarray(a, float).T for a in system.initial_state())
    massive = system.bodies.masses.size
    masses = np.pad(np.asarray(system.bodies.masses, float), (0, len(x) - massive))
    for i, row in enumerate(np.column_stack([masses, x, v])):
        values = dict(zip(("m", "x", "y", "z", "vx", "vy", "vz"), row, strict=True))
        named = {} if system.body_names is None else {"name": system.body_names[i]}
        simulation.add(**values, **named)
    if len(x) > massive:
        simulation.N_active = massive
    return simulation


def _rebound() -> ModuleType:
    try:
        return importlib.import_module("rebound")
    except ImportError as error:
        raise ImportError("to_rebound needs REBOUND: pip install rebound") from error
