"""Forces between bodies and on bodies."""

from ._force import AbstractForce
from ._gravity import Gravity
from ._post_newtonian import PostNewtonian
from ._unit_length import inverse_unit


__all__ = ["AbstractForce", "Gravity", "PostNewtonian", "inverse_unit"]
