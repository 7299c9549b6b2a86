"""Time steps that waves and diffusion allow."""

from ._cfl import CFL, largest_step
from ._stability_check import Waves, warn_of_long_steps


__all__ = ["CFL", "Waves", "largest_step", "warn_of_long_steps"]
