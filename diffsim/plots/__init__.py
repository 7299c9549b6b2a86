"""The pictures people expect: orbits, velocities, transit times, errors, uncertainties.

They need Matplotlib, `pip install "diffsim[plots]"`. Every function draws into the axes
that you give as `ax`, or makes its own, returns them, and works with and without a
display.
"""

from ._conserved_quantities import conservation
from ._convergence_plot import convergence
from ._corner import corner
from ._observed_minus_computed import observed_minus_computed
from ._orbits import orbits
from ._phase_folded import phase_folded
from ._residuals import residuals
from ._style import COLORS, look, sheet
from ._sweep_plot import sweep


__all__ = [
    "COLORS",
    "conservation",
    "convergence",
    "corner",
    "look",
    "observed_minus_computed",
    "orbits",
    "phase_folded",
    "residuals",
    "sheet",
    "sweep",
]
