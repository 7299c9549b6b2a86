"""`AbstractRiemannSolver`: the flux between two states."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array


#: One array a channel.
Channels = tuple[Array, ...]


class AbstractRiemannSolver(eqx.Module):
    """The flux through a face, from the states on both of its sides."""

    @abc.abstractmethod
    def flux(self, law: Any, left: Channels, right: Channels, axis: int) -> Channels:
        """Across faces along `axis`; the sides are in the variables of the `law`."""
