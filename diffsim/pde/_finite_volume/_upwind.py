"""First order upwind: never a new extremum."""

from ._reconstruction import AbstractReconstruction


class Upwind(AbstractReconstruction):
    """Every cell is flat: the value beside the face. Monotone, of order 1.

    **Good values:** a first try, and shocks that may smear over ten cells; else `MUSCL`
    or `WENO5`. What moves spreads as by a diffusivity of |v| Δx / 2.
    """

    @property
    def order(self):
        return 1

    @property
    def width(self):
        return 1

    @property
    def is_nonlinear(self):
        return False

    def reconstruct(self, views):
        left, right = views
        return left, right
