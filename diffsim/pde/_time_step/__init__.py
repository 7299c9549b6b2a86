"""Time steps that waves and diffusion allow."""

from ._cfl import CFL, cfl_time_step
from ._stability_check import LinearizedModes, warn_if_unstable


__all__ = ["CFL", "LinearizedModes", "cfl_time_step", "warn_if_unstable"]
