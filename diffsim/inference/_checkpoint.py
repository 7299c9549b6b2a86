"""Checkpoint of a fit: one file, and the identity of the fit in it."""

import contextlib
import dataclasses
import pathlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._atomic_file import check_file
from .._digest import program_digest, settings, tree_digest
from .._jit._placeholders import unwrapped
from .._parameter_selection import with_selected_values
from .._results import RESULTS, failures_as_nan
from .._types import PyTree
from ..simulations import load, save
from ._optax_minimiser import OptaxDescent
from ._posterior import Posterior, likelihoods_of


_SECONDS = 1.0  # between two that are written
#: All parts together: functions of priors and transforms have no part alone.
_ALL = "loss"


class Checkpoint:
    """The file of a fit; nothing is kept if `predict` is traced."""

    def __init__(self, path: Any, experiment: Posterior, solver: Any):
        self.path: pathlib.Path | None = pathlib.Path(path)
        self.identity: dict[str, str] = {}
        self.saved, self.warned = time.monotonic(), False
        try:
            self.identity = identity(experiment, solver)
        # `predict` reads what is traced, and the fit is one compiled call.
        except jax.errors.TracerArrayConversionError:
            self.path = None

    def is_due(self) -> bool:
        """Whether the last one is old enough."""
        return self.path is not None and time.monotonic() - self.saved > _SECONDS

    def save(self, state: PyTree):
        """Write the arrays of `state`; warns, once, where that is impossible."""
        if self.path is None:
            return
        leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array_like))
        content = {"fit": self.identity, "state": tuple(leaves)}
        try:
            save(self.path, content)
        except (OSError, ValueError) as error:  # no file, if it was replaced meanwhile
            if not self.warned:
                warnings.warn(
                    f"checkpoint {str(self.path)!r} cannot be written ({error}); the "
                    "fit goes on, and if it is interrupted it has to begin anew",
                    stacklevel=4,
                )
            self.warned = True
        self.saved = time.monotonic()

    def load(self, like: PyTree, loss: Callable[[PyTree], tuple[Any, Any]]) -> PyTree:
        """The state in the file, `like` without one; raises for another fit's file.

        **Arguments:** `loss(state)`: the loss that the state has, and as it is here.
        """
        if self.path is None:
            return like
        with contextlib.suppress(OSError):  # reading it says why
            check_file("checkpoint", self.path)
        try:
            content = load(self.path)
        except FileNotFoundError:
            return like
        except (OSError, ValueError) as error:
            raise self._refusal(f"cannot be read ({error})") from error
        state = self._state(content, like)
        there, here = map(float, loss(state))
        # Processors differ in the last digits, which an optimum hardly sees.
        allowed = float(jnp.finfo(like.z.dtype).eps) ** 0.5 * (1 + abs(there))
        if np.isfinite(there) and not abs(here - there) <= allowed:
            raise self._refusal(
                f"has a loss of {there!r}, and its parameters have {here!r} here: what "
                "predict reads has changed, by a callback perhaps, or it was damaged"
            )
        return state

    def _state(self, content: Any, like: PyTree) -> PyTree:
        if not isinstance(content, dict) or content.keys() != {"fit", "state"}:
            raise self._refusal("is a file of something else")
        there, here = content["fit"], settings()
        differ = [k for k in self.identity if there.get(k) != self.identity[k]]
        if differ:
            # With another model predict is another program.
            implied = {_ALL, "predict"} if "model" in differ else {_ALL}
            parts = [name for name in differ if name not in implied]
            words = [
                f"{name}, {there.get(name)} there and {here[name]} here"
                if name in here
                else name
                for name in parts or ["prior or transform"]
            ]
            raise self._refusal(
                f"belongs to another fit (its {', '.join(words)} differ)"
            )
        arrays, rest = eqx.partition(like, eqx.is_array_like)
        leaves, structure = jax.tree.flatten(arrays)
        # The history, which comes last, has a row for every step.
        if _types(content["state"][:-1]) != _types(leaves[:-1]):
            raise self._refusal("is of another release of diffsim or Optax")
        return eqx.combine(jax.tree.unflatten(structure, content["state"]), rest)

    def _refusal(self, why: str) -> ValueError:
        path = str(self.path)
        return ValueError(
            f"checkpoint {path!r} {why}; delete it to begin anew, or name another file"
        )


def identity(experiment: Posterior, solver: Any) -> dict[str, str]:
    """A digest of every part of a fit, by what users call it.

    Functions count by the programs that they are traced to.
    """
    parameters = experiment.parameters
    selection, coordinates = parameters.selection, parameters.coordinates
    z, start = parameters.z_start, parameters.start
    chosen = [(part.leaf, part.shape, part.entries) for part in selection.parts]

    def loss(data, z):
        return dataclasses.replace(experiment, data=data).loss(z)

    model = parameters.model(start)
    rest = with_selected_values(parameters.base, selection, jnp.zeros_like(start))
    parts = {
        "data": _data(experiment),
        "noise": (experiment.noise, _program(experiment.noise, model)),
        "predict": (experiment.predict, _program(experiment.predict, model)),
        "model": rest,
        "free parameters": (selection.names, repr(chosen), parameters.tied),
        "start": start,
        "bounds": (parameters.lower, parameters.upper),
        "prior": (
            (parameters.prior_mean, parameters.prior_sd, parameters.has_prior),
            (parameters.distributions, parameters.priors),
        ),
        "transform": (coordinates.transforms, coordinates.spans),
        "scale": coordinates.scale,
        # An outcome is kept as its number, which another release may give another.
        "solver": (
            solver,
            _program(_descent_step(solver), z),
            list(RESULTS._name_to_item),
        ),
        _ALL: _program(loss, experiment.data, z),
    }
    return settings() | {name: tree_digest(part) for name, part in parts.items()}


def _program(function: Any, *args: Any) -> str | None:
    """A digest of what a function does with these arguments; None if it is none."""
    if not callable(function):
        return None

    arrays, rest = eqx.partition(args, eqx.is_array)

    def flat(arrays):
        result = unwrapped(function)(*eqx.combine(arrays, rest))
        return eqx.filter(result, eqx.is_array_like)

    with failures_as_nan():
        return program_digest(jax.make_jaxpr(flat)(arrays))


def _descent_step(solver: Any) -> Callable | None:
    """The first step of an optimizer, on a parabola."""
    if not isinstance(solver, OptaxDescent):
        return None

    def loss(z, args):
        return jnp.sum(z**2), None

    def step(z):
        state = solver.init(loss, z, None, {}, None, None, frozenset())
        return solver.step(loss, z, None, {}, state, frozenset())

    return step


def _data(experiment: Posterior) -> list[Any]:
    """The data in use, their masks and layouts: masked data may be anything."""
    if experiment.data is None or experiment.layouts is None:
        return []
    used = []
    likelihoods = likelihoods_of(experiment).likelihoods
    parts = zip(experiment.data, experiment.layouts, likelihoods, strict=True)
    for vector, layout, likelihood in parts:
        data, mask = np.asarray(vector), likelihood.used(layout)
        if mask is not None:
            mask = np.asarray(mask)
            data = np.where(mask, data, np.zeros((), data.dtype))
        used.append((data, mask, layout))
    return used


def _types(leaves: Any) -> list[Any]:
    return [(np.shape(x), getattr(x, "dtype", type(x))) for x in leaves]
