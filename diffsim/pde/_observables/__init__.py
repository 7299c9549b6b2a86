"""Observables of fields: sums, spectra, values at points, energy of flows."""

from ._energy import energy, enstrophy
from ._integral import integral
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
