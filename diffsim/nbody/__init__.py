"""Point masses under gravity and other forces."""

from ._bodies import Bodies, BodyAxes, State, TestParticles
from ._forces import AbstractForce, Gravity, PostNewtonian
from ._gauss_radau import IAS15
from ._kepler import (
    Elements,
    NonsingularElements,
    Orbit,
    eccentric_anomaly,
    kepler_step,
)
from ._megno import Megno, megno
from ._nbody import NBody
from ._observables import angular_momentum, distances, energy, momentum
from ._orbital_elements import elements, nonsingular_elements
from ._radial_velocity import planet_mass, radial_velocity, semi_amplitude
from ._recommend import recommend_method
from ._sky_positions import sky_positions, sky_separations
from ._transit_times import TransitTimes, transit_times
from ._units import G
from ._wisdom_holman import SABA, HybridWisdomHolman, WisdomHolman


__all__ = [
    "IAS15",
    "SABA",
    "AbstractForce",
    "Bodies",
    "BodyAxes",
    "Elements",
    "G",
    "Gravity",
    "HybridWisdomHolman",
    "Megno",
    "NBody",
    "NonsingularElements",
    "Orbit",
    "PostNewtonian",
    "State",
    "TestParticles",
    "TransitTimes",
    "WisdomHolman",
    "angular_momentum",
    "distances",
    "eccentric_anomaly",
    "elements",
    "energy",
    "kepler_step",
    "megno",
    "momentum",
    "nonsingular_elements",
    "planet_mass",
    "radial_velocity",
    "recommend_method",
    "semi_amplitude",
    "sky_positions",
    "sky_separations",
    "transit_times",
]
