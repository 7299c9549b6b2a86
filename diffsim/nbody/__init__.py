"""Point masses under gravity and other forces."""

from ._bodies import Bodies, Tracers
from ._forces import AbstractForce, Gravity, PostNewtonian
from ._nbody import NBody
from ._observables import angular_momentum, energy, momentum, separations
from ._state import State
from ._units import G


__all__ = [
    "AbstractForce",
    "Bodies",
    "G",
    "Gravity",
    "NBody",
    "PostNewtonian",
    "State",
    "Tracers",
    "angular_momentum",
    "energy",
    "momentum",
    "separations",
]
