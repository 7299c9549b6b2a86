"""States that nothing changes any more."""

from ._pseudo_transient import PseudoTransient
from ._steady_state import steady_state, steady_state_solution


__all__ = ["PseudoTransient", "steady_state", "steady_state_solution"]
