"""The equations."""

from ._base import AbstractEquation
from ._diffusion import Diffusion


__all__ = ["AbstractEquation", "Diffusion"]
