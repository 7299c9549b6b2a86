"""Initial conditions as other programs hold them."""

from typing import Any

import numpy as np


def particles_of(simulation: Any):
    """Masses, positions, velocities and names of one like `rebound.Simulation`."""
    particles = list(simulation.particles)
    masses = np.array([p.m for p in particles])
    _check_same_physics(simulation, masses)
    positions = np.array([[p.x, p.y, p.z] for p in particles])
    velocities = np.array([[p.vx, p.vy, p.vz] for p in particles])
    names = [str(p.name) for p in particles if getattr(p, "name", None)]
    return masses, positions, velocities, names if len(names) == masses.size else None


def _check_same_physics(simulation: Any, masses: np.ndarray):
    softening = getattr(simulation, "softening", 0.0)
    if softening != 0:
        raise ValueError(
            f"simulation has a softening of {softening:g}, which bodies cannot hold; "
            "set simulation.softening = 0 and give NBody the force "
            f"Gravity(simulation.G, softening={softening:g})"
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
        return np.atleast_1d(np.asarray(table[columns[name.lower()]]))

    mass = column("mass") if "mass" in columns else column("GM") / G
    positions = np.stack([column(c) for c in "XYZ"], axis=-1)
    velocities = np.stack([column(c) for c in ("VX", "VY", "VZ")], axis=-1)
    labels = column(names).tolist() if names.lower() in columns else None
    return mass, positions, velocities, labels


def _keys(table: Any) -> list[str]:
    keys = table.keys() if hasattr(table, "keys") else getattr(table, "columns", ())
    return [str(key) for key in keys]
