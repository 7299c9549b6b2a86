"""Experiments of results: what a `Fit` or `Fisher` needs to go on from itself.

They are kept beside the result and not in it: a result is arrays and names, which
`jit` returns, `diffsim.save` writes and pickle copies, and an experiment holds
functions. Of a result that came by such a way it is not known.
"""

import weakref
from typing import Any

import jax

from .._validation import is_traced
from ._posterior import Posterior


#: By the identity of a result; an entry goes with its result.
_kept: dict[int, tuple[Any, Posterior]] = {}


def remember(result: Any, experiment: Posterior):
    """Keep the experiment for as long as the result lives; nothing that is traced."""
    if any(map(is_traced, jax.tree.leaves((result, experiment)))):
        return
    key = id(result)
    reference = weakref.ref(result, lambda _: _kept.pop(key, None))
    _kept[key] = reference, experiment


def recall(result: Any, what: str) -> Posterior:
    """The experiment of a result; raises `ValueError` where it is not known."""
    reference, experiment = _kept.get(id(result), (None, None))
    if experiment is None or reference is None or reference() is not result:
        kind = type(result).__name__.lower()
        raise ValueError(
            f"{what} needs predict and the data, and this {kind} no longer has them: "
            "it was loaded, copied, batched or returned by jit; call it on the very "
            f"object that ds.{kind}(...) returned"
        )
    return experiment
