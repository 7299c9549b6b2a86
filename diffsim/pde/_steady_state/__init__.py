"""States that nothing changes any more."""

from ._pseudo_transient import PseudoTime
from ._steady_state import steady


__all__ = ["PseudoTime", "steady"]
