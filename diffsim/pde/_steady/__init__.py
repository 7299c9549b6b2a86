"""States that nothing changes any more."""

from ._pseudo_time import PseudoTime
from ._solve import steady


__all__ = ["PseudoTime", "steady"]
