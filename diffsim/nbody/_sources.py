"""Initial conditions as other programs hold them."""

from typing import Any

import numpy as np

from .._checks import check_unitless


def particles_of(simulation: Any):
    """Masses, positions, velocities and names of one like `rebound.Simulation`."""
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


def _check_same_physics(simulation: Any, masses: np.ndarray):
    gravity = getattr(simulation, "gravity", "basic")
    if gravity == "none":
        raise ValueError(
            'simulation has gravity = "none"; take Bodies.from_rebound while it is '
            '"basic", and NBody(bodies, forces, gravity=False)'
        )
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


def columns_of(table: Any, *, G: float, names: str):
    """Masses, positions, velocities and names from named columns."""
    columns = {str(key).strip().lower(): key for key in _keys(table)}

    def column(name):
        if name.lower() not in columns:
            raise ValueError(
                f"table has no column {name}; it has {', '.join(_keys(table))}"
            )
        found = table[columns[name.lower()]]
        check_unitless(name, found)
        return np.atleast_1d(np.asarray(found))

    mass = column("mass") if "mass" in columns else column("GM") / G
    positions = np.stack([column(c) for c in "XYZ"], axis=-1)
    velocities = np.stack([column(c) for c in ("VX", "VY", "VZ")], axis=-1)
    labels = column(names).tolist() if names.lower() in columns else None
    return mass, positions, velocities, labels


def _keys(table: Any) -> list[str]:
    keys = table.keys() if hasattr(table, "keys") else getattr(table, "columns", ())
    return [str(key) for key in keys]
