"""`AbstractEquation`: how a field changes, whatever grid it is on."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array

from ...simulations import Method
from .._domain import Domain


class AbstractEquation(eqx.Module):
    r"""$\partial_t u = F(t, u)$ for fields u of shape (channel, *grid).

    Subclass `AbstractFiniteVolume`; `Evolution` does the rest. What floats in one is a
    parameter.
    """

    @abc.abstractmethod
    def channels(self, ndim: int) -> int:
        """Fields that it evolves in this many dimensions.

        **Raises:** `ValueError` if it has no form in so many.
        """


class AbstractFiniteVolume(AbstractEquation):
    """An equation for fields in cells, with any boundary."""

    @abc.abstractmethod
    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        """F(t, u), shape (channel, *grid)."""

    @abc.abstractmethod
    def default_method(self, domain: Domain) -> Method:
        """A good start for those who do not know integrators."""

    def check(self, u: Array, domain: Domain) -> None:
        """Objects to a start that it cannot evolve; to none by default."""
        del u, domain
