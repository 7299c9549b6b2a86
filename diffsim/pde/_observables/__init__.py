"""Observables of fields: sums, spectra, values at points, energy of flows."""

from ._integrals import energy, enstrophy, integral
from ._probe import probe
from ._spectrum import spectrum
from ._velocity import velocity, vorticity


__all__ = [
    "energy",
    "enstrophy",
    "integral",
    "probe",
    "spectrum",
    "velocity",
    "vorticity",
]
