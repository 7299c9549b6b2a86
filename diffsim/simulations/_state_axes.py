"""`StateAxes`: names for the parts of a state and for their axes."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._extras import Variable
from .._paths import joined, step_to
from .._types import PyTree
from .._validation import as_jax_takes, is_traced


class AbstractStateAxes(eqx.Module):
    """Names of the parts and axes of an observed state, for tables and pictures.

    `AbstractSimulation.state_axes` returns one, and `Trajectory.axes` keeps it. Arrays
    in it are data, names are static.

    **Fields**

    - `names`: what `trajectory[name]` finds.
    """

    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def variables(self, states: PyTree, leading: int = 0) -> dict[str, Variable]:
        """Return each array in `states` by name, with the names of its axes.

        Of `leading` axes, of times and runs, names are left to others.
        """

    @abc.abstractmethod
    def coordinates(self) -> dict[str, Any]:
        """Where the entries of an axis lie, or what they are called, by its name."""

    def columns(self, states: PyTree, leading: int = 0) -> dict[str, Variable]:
        """The same numbers as columns of one table; `variables` by default."""
        return self.variables(states, leading)

    def select(self, states: PyTree, name: str) -> PyTree:
        """The part of `states` of one of `names`; one of `variables` by default."""
        return self.variables(states)[name][1]


class StateAxes(AbstractStateAxes):
    """Names for the arrays in a state, for their axes and for the entries of these.

    ```python
    class Oscillators(ds.AbstractSimulation):
        ...

        def state_axes(self):
            names, axis = ("displacement", "velocity"), ("oscillator",)
            return simulations.StateAxes(names, axes=dict.fromkeys(names, axis))
    ```

    **Arguments**

    - `names`: a name for each array in what `observe` returns, in the order of the
        leaves of the pytree.
    - `axes`: names of the axes of these arrays, without time, by the name of the array;
        left out, they are numbered, `displacement_axis_0`.
    - `entries`: by the name of an axis, what its entries are called, as strings, or
        where they lie, as numbers.

    **Raises:** `ValueError` for a name that is given twice.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    axes: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True)
    labels: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True)
    places: dict[str, Array | np.ndarray]

    def __init__(
        self,
        names: Sequence[str],
        *,
        axes: Mapping[str, Sequence[str]] | None = None,
        entries: Mapping[str, Any] | None = None,
    ):
        self.names = _as_names(names)
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"names must differ, got {self.names}")
        self.axes = tuple((name, _as_names(of)) for name, of in (axes or {}).items())
        entries = entries or {}
        named = {axis: _as_names(x) for axis, x in entries.items() if _are_names(x)}
        self.labels = tuple(named.items())
        self.places = {
            axis: _as_places(x) for axis, x in entries.items() if axis not in named
        }

    @classmethod
    def from_pytree(cls, tree: PyTree, alone: str = "state") -> "StateAxes":
        """Names by where each array is in `tree`, as one would write it.

        That of an array which is all there is, is `alone`.
        """
        paths, _ = jax.tree_util.tree_flatten_with_path(tree)
        names = [joined([step_to(key) for key in path]) for path, _ in paths]
        return cls([f"{alone}{n}" if n[:1] in ("[", "") else n for n in names])

    def variables(self, states: PyTree, leading: int = 0) -> dict[str, Variable]:
        leaves = jax.tree.leaves(states)
        if len(leaves) != len(self.names):
            raise ValueError(
                f"names must be one for each array in a state, got {self.names} for "
                f"{len(leaves)} arrays"
            )
        known = dict(self.axes)
        return {
            name: (known.get(name) or _numbered(name, np.ndim(leaf) - leading), leaf)
            for name, leaf in zip(self.names, leaves, strict=True)
        }

    def coordinates(self) -> dict[str, Any]:
        return dict(self.labels) | self.places


def _are_names(entries: Any) -> bool:
    return any(isinstance(entry, str) for entry in entries)


def _as_names(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def _as_places(entries: Any) -> Array | np.ndarray:
    """An array, for which a list of numbers would be as many arrays."""
    if any(map(is_traced, jax.tree.leaves(entries))):
        return jnp.asarray(entries)
    return np.asarray(as_jax_takes("entries", entries))


def _numbered(name: str, ndim: int) -> tuple[str, ...]:
    return tuple(f"{name}_axis_{i}" for i in range(ndim))
