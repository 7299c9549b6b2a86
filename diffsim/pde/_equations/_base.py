"""`AbstractEquation`: how a field changes, whatever grid it is on."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array

from ...simulations import Method
from .._domain import Domain


class AbstractEquation(eqx.Module):
    r"""$\partial_t u = F(t, u)$ for fields u of shape (channel, *grid).

    Subclasses say `channels`, `rate` and how it is run; `Evolution` does the rest.
    What floats in one is a parameter.
    """

    @property
    @abc.abstractmethod
    def channels(self) -> int:
        """Fields that it evolves."""

    @abc.abstractmethod
    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        """F(t, u), shape (channel, *grid)."""

    @abc.abstractmethod
    def default_method(self, domain: Domain) -> Method:
        """A good start for those who do not know integrators."""
