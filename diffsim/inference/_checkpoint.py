"""Checkpoint of a fit: one file, and the identity of the fit in it."""

import contextlib
import pathlib
import platform
import time
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._atomic_file import check_file
from .._jit._fingerprint import TracedError, fingerprint
from .._parameter_selection import with_selected_values
from .._results import RESULTS
from .._types import PyTree
from .._validation import is_traced
from ..simulations import load, save
from ._posterior import Posterior, likelihoods_of


_SECONDS = 1.0  # between two that are written
# Of these a change in the code counts, and a release of Python compiles it anew.
_FUNCTIONS = {"predict", "noise", "model", "transform", "solver"}


class Checkpoint:
    """The file of a fit; nothing is kept without a path, or if `predict` is traced."""

    def __init__(self, path: Any, experiment: Posterior, solver: Any):
        self.path = None if path is None else pathlib.Path(path)
        self.identity: dict[str, str] = {}
        self.saved, self.warned = time.monotonic(), False
        if self.path is not None:
            try:
                self.identity = identity(experiment, solver)
            except TracedError:  # then the fit is one compiled call
                self.path = None

    def is_due(self) -> bool:
        """Whether the last one is old enough."""
        return self.path is not None and time.monotonic() - self.saved > _SECONDS

    def save(self, state: PyTree):
        """Write the arrays of `state`; warns, once, where that is impossible."""
        if self.path is None:
            return
        leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array_like))
        python = platform.python_version()
        content = {"fit": self.identity, "python": python, "state": tuple(leaves)}
        try:
            save(self.path, content)
        except (OSError, ValueError) as error:  # no file, if it was replaced meanwhile
            self._warn(error)
        self.saved = time.monotonic()

    def load(self, like: PyTree) -> PyTree:
        """The state in the file, `like` without one; raises for another fit's file."""
        if self.path is None:
            return like
        with contextlib.suppress(OSError):  # reading it says why
            check_file("checkpoint", self.path)
        try:
            found = load(self.path)
        except FileNotFoundError:
            return like
        except (OSError, ValueError) as error:
            raise self._refusal(f"cannot be read ({error})") from error
        return self._state(found, like)

    def _state(self, found: Any, like: PyTree) -> PyTree:
        if not isinstance(found, dict) or found.keys() != {"fit", "python", "state"}:
            raise self._refusal("is a file of something else")
        known = found["fit"]
        differ = [k for k in self.identity if known.get(k) != self.identity[k]]
        if differ:
            why = f"belongs to another fit (its {', '.join(differ)} differ)"
            raise self._refusal(why + _about_functions(differ, found["python"]))
        arrays, rest = eqx.partition(like, eqx.is_array_like)
        leaves, structure = jax.tree.flatten(arrays)
        # The history, which comes last, has a row for every step.
        if _types(found["state"][:-1]) != _types(leaves[:-1]):
            raise self._refusal("is of another release of diffsim or Optax")
        return eqx.combine(jax.tree.unflatten(structure, found["state"]), rest)

    def _refusal(self, why: str) -> ValueError:
        path = str(self.path)
        return ValueError(
            f"checkpoint {path!r} {why}; delete it to begin anew, or name another file"
        )

    def _warn(self, error: Exception):
        if self.warned:
            return
        self.warned = True
        warnings.warn(
            f"checkpoint {str(self.path)!r} cannot be written ({error}); the fit goes "
            "on, and if it is interrupted it has to begin anew",
            stacklevel=5,
        )


def identity(experiment: Posterior, solver: Any) -> dict[str, str]:
    """A digest of every part of a fit, by what users call it."""
    parameters = experiment.parameters
    selection, coordinates = parameters.selection, parameters.coordinates
    chosen = [(part.leaf, part.shape, part.entries) for part in selection.parts]
    rest = with_selected_values(
        parameters.base, selection, jnp.zeros_like(parameters.start)
    )
    prior = (
        (parameters.prior_mean, parameters.prior_sd, parameters.has_prior),
        (parameters.distributions, parameters.priors),
    )
    parts = {
        "data": _data(experiment),
        "noise": experiment.noise,
        "predict": experiment.predict,
        "model": rest,
        "free parameters": (selection.names, chosen, parameters.tied),
        "start": parameters.start,
        "bounds": (parameters.lower, parameters.upper),
        "prior": prior,
        "transform": (coordinates.transforms, coordinates.spans),
        "scale": coordinates.scale,
        # An outcome is kept as its number, which another release may give another.
        "solver": (solver, list(RESULTS._name_to_item)),
    }
    return {name: fingerprint(part).hex() for name, part in parts.items()}


def _data(experiment: Posterior) -> list[Any]:
    """The data in use, their masks and layouts: what is masked may be anything."""
    if experiment.data is None or experiment.layouts is None:
        return []
    found = []
    likelihoods = likelihoods_of(experiment).likelihoods
    parts = zip(experiment.data, experiment.layouts, likelihoods, strict=True)
    for vector, layout, likelihood in parts:
        data, mask = np.asarray(vector), likelihood.used(layout)
        if is_traced(mask):
            raise TracedError("the mask is traced")
        if mask is not None:
            mask = np.asarray(mask)
            data = np.where(mask, data, np.zeros((), data.dtype))
        found.append((data, mask, layout))
    return found


def _types(leaves: Any) -> list[Any]:
    return [(np.shape(x), getattr(x, "dtype", type(x))) for x in leaves]


def _about_functions(differ: list[str], python: str) -> str:
    if not _FUNCTIONS & set(differ):
        return ""
    here = platform.python_version()
    versions = f"; it was written by Python {python}, this is {here}"
    return (
        ", where functions count by their code, constants and what they refer to, so "
        "that an edited one is another, and any is under another Python"
        + (versions if python != here else "")
    )
