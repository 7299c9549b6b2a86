"""Algebra of Fisher matrices: sums, multiples, parts and other parameters."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..._linalg import matmul
from ..._parameter_selection import leaf_indices, select
from ..._results import RESULTS
from ..._types import PyTree
from ..._validation import (
    array_of,
    as_floating,
    is_traced,
    not_negative,
    scalar,
)
from .._information_factor import (
    information_rows,
    scaled_cholesky_factor,
    solve_information,
)


#: A `Fisher`, which is made of these functions and so cannot be named here.
_Fisher = TypeVar("_Fisher", bound=Any)


def _of_rows(fisher: _Fisher, rows: Array, **changes: Any) -> _Fisher:
    """The information RᵀR of rows R; what belonged to the experiment is left out."""
    root, scale = scaled_cholesky_factor(rows)
    kept = {"score_rows": None, "refined": None, "score": None, **changes}
    return dataclasses.replace(fisher, root=root, scale=scale, **kept)


def added(one: _Fisher, other: _Fisher) -> _Fisher:
    """The sum of two on the same parameters, in the order of the first."""
    only = sorted(set(one.names) ^ set(other.names))
    if only:
        raise ValueError(
            "two Fisher matrices add if they have the same names, and only one has "
            f"{only[:6]}; use fix or marginalize first, or F1 | F2 for all parameters "
            "of both"
        )
    order = np.array([other.names.index(name) for name in one.names])
    rows = [one.root * one.scale, (other.root * other.scale)[:, order]]
    values = one.values
    if values is None and other.values is not None:
        values = other.values[order]
    total = _of_rows(
        one,
        jnp.concatenate(rows),
        values=values,
        kind=_common_kind(one, other),
        status=_common_status(one, other),
    )
    scores = one.score, other.score
    if None in (one.refined, other.refined) or any(x is None for x in scores):
        return total
    return total.with_refinement(
        one.refined + other.refined, one.score + other.score[order]
    )


def joined(one: _Fisher, other: _Fisher) -> _Fisher:
    """The sum over the parameters of both, those of the first first."""
    names = (*one.names, *(name for name in other.names if name not in one.names))
    rows, values = [], jnp.full(len(names), jnp.nan, one.root.dtype)
    for each in (other, one):
        where = np.array([names.index(name) for name in each.names])
        wide = jnp.zeros((each.root.shape[0], len(names)), each.root.dtype)
        rows.append(wide.at[:, where].set(each.root * each.scale))
        if each.values is not None:
            values = values.at[where].set(each.values)
    return _of_rows(
        one,
        jnp.concatenate(rows),
        names=names,
        values=values,
        kind=_common_kind(one, other),
        status=_common_status(one, other),
    )


def _common_kind(one: Any, other: Any) -> str:
    return one.kind if one.kind == other.kind else f"{one.kind} + {other.kind}"


def _common_status(one: Any, other: Any) -> RESULTS:
    failed = jnp.asarray(one.status != RESULTS.successful)
    return RESULTS.where(failed, one.status, other.status)


def multiplied(fisher: _Fisher, factor: Any) -> _Fisher:
    """The information of `factor` such experiments."""
    scalar("factor", factor)
    not_negative("factor", factor, "it counts experiments")
    rows = fisher.root * fisher.scale
    found = _of_rows(fisher, rows * jnp.sqrt(jnp.asarray(factor, rows.dtype)))
    if fisher.refined is None or fisher.score is None:
        return found
    return found.with_refinement(factor * fisher.refined, factor * fisher.score)


def given_information(fisher: _Fisher, matrix: Any) -> _Fisher:
    """An information matrix in the order of the names of `fisher`."""
    array = as_floating("matrix", matrix)
    hint = f"in the order of names, {fisher.names[:6]}"
    array_of("matrix", array, (len(fisher.names),) * 2, hint)
    # Not made a triangle: one that is singular has no derivative.
    rows = information_rows(array.astype(fisher.root.dtype))
    scale = jnp.ones(len(fisher.names), rows.dtype)
    other = dataclasses.replace(
        fisher,
        root=rows,
        scale=scale,
        score_rows=None,
        status=RESULTS.successful,
        refined=None,
        score=None,
    )
    # No step decides what is given.
    return other.with_refinement(other, jnp.zeros_like(scale))


def split(fisher: Any, act: str, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the parameters `names`, and of the others."""
    drop = np.unique(np.array(leaf_indices(fisher.names, names), int))
    keep = np.setdiff1d(np.arange(len(fisher.names)), drop)
    if keep.size == 0:
        raise ValueError(
            f"{act} must leave one parameter at least, got all {len(fisher.names)}"
        )
    return drop, keep


def fixed(fisher: _Fisher, names: Any) -> _Fisher:
    """The information if the parameters `names` were known exactly."""
    _, keep = split(fisher, "fix", names)
    rows = None if fisher.score_rows is None else fisher.score_rows[:, keep]
    found = _of_rows(
        fisher,
        fisher.root[:, keep] * fisher.scale[keep],
        score_rows=rows,
        names=tuple(fisher.names[i] for i in keep),
        values=None if fisher.values is None else fisher.values[keep],
    )
    if fisher.refined is None or fisher.score is None:
        return found
    return found.with_refinement(fisher.refined.fix(names), fisher.score[keep])


def marginalized(fisher: _Fisher, names: Any) -> _Fisher:
    """The Schur complement, by rows from which what `names` explain is projected."""
    drop, keep = split(fisher, "marginalize", names)
    nuisance, wanted = fisher.root[:, drop], fisher.root[:, keep]
    span, values, _ = jnp.linalg.svd(nuisance, full_matrices=False)
    rounding = jnp.finfo(span.dtype).eps ** 0.8
    span = jnp.where(values > rounding * jnp.max(values, initial=0), span, 0)
    for _ in range(2):  # the second pass removes what rounding left of the first
        wanted = wanted - matmul(span, matmul(span.T, wanted))
    # The rest of a column of unit norm is rounding, not information.
    wanted = jnp.where(jnp.linalg.norm(wanted, axis=0) > rounding, wanted, 0)
    found = _of_rows(
        fisher,
        wanted * fisher.scale[keep],
        names=tuple(fisher.names[i] for i in keep),
        values=None if fisher.values is None else fisher.values[keep],
    )
    if fisher.refined is None or fisher.score is None:
        return found
    # Values move alike whether the other parameters are looked at or not.
    shift, _ = solve_information(fisher.root, fisher.score / fisher.scale)
    score = found.mv((shift / fisher.scale)[keep])
    return found.with_refinement(fisher.refined.marginalize(names), score)


def reparametrized(fisher: _Fisher, function: Callable, values: PyTree) -> _Fisher:
    """The information on parameters of which those of `fisher` are a function."""
    selection = select(values, "*", argument="values")
    start, unravel = ravel_pytree(jax.tree.map(jnp.asarray, values))

    def old(new: Array) -> Array:
        return _in_order(fisher.names, function(unravel(new)))

    start = start.astype(fisher.root.dtype)
    _check_same_place(fisher, old(start))
    jacobian = jax.jacfwd(old)(start)
    return _of_rows(
        fisher,
        matmul(fisher.root * fisher.scale, jacobian),
        names=selection.names,
        values=start,
    )


def _check_same_place(fisher: Any, values: Array):
    """The information holds where it was evaluated, and a derivative there only."""
    if fisher.values is None or is_traced((fisher.values, values)):
        return
    known = np.asarray(fisher.values)
    away = np.abs(np.asarray(values) - known) > 1e-3 * np.abs(known) + 1e-12
    if np.any(away & np.isfinite(known)):
        i = int(np.argmax(away))
        raise ValueError(
            f"values must be where the information holds: function(values) gives "
            f"{float(values[i]):.6g} for {fisher.names[i]}, and it was evaluated at "
            f"{known[i]:.6g}"
        )


def _in_order(names: tuple[str, ...], found: Any) -> Array:
    """The old parameters that a function returned, as a vector."""
    if isinstance(found, dict):
        lost, more = set(names) - set(found), set(found) - set(names)
        if lost or more:
            raise ValueError(
                f"function must return a dict of the parameters {list(names)[:6]}, got "
                f"{sorted(map(str, found))[:6]}"
            )
        return jnp.stack([jnp.asarray(found[name], float) for name in names])
    vector = jnp.ravel(jnp.asarray(found))
    if vector.size != len(names):
        raise ValueError(
            f"function must return the {len(names)} parameters {names[:6]}, got "
            f"{vector.size} numbers"
        )
    return vector
