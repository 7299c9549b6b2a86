"""Problems with exact or published answers that tests and benchmarks share."""

from ._ephemerides import Ephemeris, load_de440
from ._kaps_problem import Kaps, kaps
from ._manufactured_solutions import (
    MANUFACTURED_PROBLEMS,
    ManufacturedProblem,
    manufactured_error,
)
from ._nbody_problems import NBODY_PROBLEMS, ExactValue, Problem
from ._nbody_systems import (
    figure_eight,
    kepler,
    kepler_orbit,
    mercury,
    outer_solar_system,
    pythagorean,
    solar_system,
    variations,
)
from ._pde_problems import PDE_PROBLEMS


__all__ = [
    "MANUFACTURED_PROBLEMS",
    "NBODY_PROBLEMS",
    "PDE_PROBLEMS",
    "Ephemeris",
    "ExactValue",
    "Kaps",
    "ManufacturedProblem",
    "Problem",
    "figure_eight",
    "kaps",
    "kepler",
    "kepler_orbit",
    "load_de440",
    "manufactured_error",
    "mercury",
    "outer_solar_system",
    "pythagorean",
    "solar_system",
    "variations",
]
