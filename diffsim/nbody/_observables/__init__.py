"""What is measured on an N-body state; each knows its dimension."""

from ._angular_momentum import angular_momentum
from ._energy import energy
from ._momentum import momentum
from ._separations import separations


__all__ = ["angular_momentum", "energy", "momentum", "separations"]
