"""The pictures people expect: orbits, residuals, uncertainties.

They need matplotlib, `pip install "diffsim[plots]"`. Every function draws into axes or
a figure that you give, or makes its own, and works with and without a display.
"""

from ._corner import corner
from ._orbits import orbits
from ._residuals import residuals
from ._style import COLORS, look, sheet


__all__ = ["COLORS", "corner", "look", "orbits", "residuals", "sheet"]
