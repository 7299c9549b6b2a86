"""States that nothing changes any more."""

from ._pseudo_transient import PseudoTransient
from ._steady_state import steady_state


__all__ = ["PseudoTransient", "steady_state"]
