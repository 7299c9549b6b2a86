"""The pictures people expect: orbits, fields, flows, fits, sweeps, errors, movies.

They need Matplotlib, `pip install matplotlib`. Every function draws into the axes
that you give as `ax`, or makes its own, returns them, and works with and without a
display.
"""

from ._animate import animate
from ._conserved_quantities import conservation
from ._convergence_plot import convergence
from ._corner import corner
from ._field import field
from ._fit_plot import fit
from ._flow_lines import streamlines, vectors
from ._observed_minus_computed import observed_minus_computed
from ._orbits import orbits
from ._phase_folded import phase_folded
from ._power_spectrum import spectrum
from ._profile_plot import contour, profile
from ._residuals import residuals
from ._slices import slices
from ._space_time import space_time
from ._style import COLORS, look, sheet
from ._sweep_plot import sweep
from ._trajectory_plot import trajectory


__all__ = [
    "COLORS",
    "animate",
    "conservation",
    "contour",
    "convergence",
    "corner",
    "field",
    "fit",
    "look",
    "observed_minus_computed",
    "orbits",
    "phase_folded",
    "profile",
    "residuals",
    "sheet",
    "slices",
    "space_time",
    "spectrum",
    "streamlines",
    "sweep",
    "trajectory",
    "vectors",
]
