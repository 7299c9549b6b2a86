"""Time steps that waves and diffusion allow."""

from ._cfl import CFL, largest_step
from ._stability_check import LinearizedModes, warn_of_long_steps


__all__ = ["CFL", "LinearizedModes", "largest_step", "warn_of_long_steps"]
