"""Linear systems, and what is known about them."""

from ._base import AbstractLinear
from ._dense import Dense
from ._from_lineax import FromLineax


__all__ = ["AbstractLinear", "Dense", "FromLineax"]
