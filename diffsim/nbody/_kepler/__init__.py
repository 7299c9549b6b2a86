"""Two bodies: Kepler's equation, motion along any conic, and its elements."""

from ._eccentric_anomaly import eccentric_anomaly
from ._elements import Elements
from ._kepler_drift import kepler_drift
from ._kepler_step import kepler_step
from ._nonsingular_elements import NonsingularElements
from ._orbit import Orbit


__all__ = [
    "Elements",
    "NonsingularElements",
    "Orbit",
    "eccentric_anomaly",
    "kepler_drift",
    "kepler_step",
]
