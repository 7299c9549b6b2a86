"""Tied parameters: numbers of a model that follow others."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .._jaxpr._tracing import explain_tracer_errors
from .._parameter_selection import (
    LeafSelection,
    Selection,
    select,
    selected_values,
    with_selected_values,
)
from .._types import PyTree
from .._validation import function_of


class Tied(eqx.Module):
    """Numbers that are copied from a path, or computed from the model."""

    function: Callable | None
    source: Selection | None = eqx.field(static=True)
    selection: Selection = eqx.field(static=True)

    def follow(self, model: PyTree[Any]) -> PyTree[Any]:
        """The model with these numbers as the others have them."""
        return with_selected_values(model, self.selection, self.values(model))

    def values(self, model: PyTree[Any]) -> Array:
        """The numbers themselves."""
        size = len(self.selection.names)
        if self.function is None:
            assert self.source is not None
            found = selected_values(model, self.source)
        else:
            with explain_tracer_errors("tied", self.function):
                found = jnp.ravel(jnp.asarray(self.function(model)))
        if found.size not in (1, size):
            several = f" or {size}" if size > 1 else ""
            raise ValueError(
                f"tied of {self.selection.parts[0].path!r} must give one number"
                f"{several}, got {found.size}"
            )
        return jnp.broadcast_to(found, (size,))


def tied_parameters(
    model: PyTree[Any], ties: dict[str, Any], free: Selection
) -> tuple[Tied, ...]:
    """The parameters of `free={path: Free(tied=...)}`, in their order."""
    found = []
    for path, given in ties.items():
        selection = select(model, path)
        both = set(selection.names) & set(free.names)
        if both:
            raise ValueError(
                f"free names {min(both)!r} twice, as free and as tied; name every "
                "number once"
            )
        function, source = given, None
        if isinstance(given, str):
            function, source = None, select(model, given, argument="tied")
        else:
            function_of("tied", given, ("model",))
        found.append(Tied(function, source, selection))
    return tuple(found)


def tied_parts(tied: tuple[Tied, ...]) -> tuple[LeafSelection, ...]:
    """The leaves that they are in."""
    return tuple(part for one in tied for part in one.selection.parts)
