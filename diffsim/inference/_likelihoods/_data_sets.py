"""Several data sets, each with a likelihood of its own, as one observation."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import PyTree
from ..._validation import as_floating, as_vector, function_of, is_traced
from ._covariance import AbstractCovariance
from ._custom import CustomLikelihood
from ._likelihood import AbstractLikelihood, DataLayout


class DataSets(eqx.Module):
    """Likelihoods of data sets, in the order of the pytree of noise."""

    likelihoods: tuple[AbstractLikelihood, ...]
    varies: tuple[bool, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def split(self, name: str, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """The parts of data or prediction that belong to each likelihood."""
        try:
            return self.structure.flatten_up_to(tree)
        except ValueError as error:
            keys = jax.tree.unflatten(self.structure, ["..."] * len(self.likelihoods))
            raise ValueError(
                f"{name} must have a part for each likelihood of noise, which has "
                f"{_keys(keys)}, got {_keys(tree)}"
            ) from error

    def labels(self) -> list[str]:
        """Names of the data of each, as error messages have them."""
        indices = jax.tree.unflatten(self.structure, range(len(self.likelihoods)))
        paths = jax.tree_util.tree_flatten_with_path(indices)[0]
        return [f"data{jax.tree_util.keystr(path)}" for path, _ in paths]


def data_sets(noise: Any, model: PyTree[Any]) -> DataSets:
    """The likelihoods that `noise` is at `model`; objects to anything else."""
    _check_no_covariance(noise)
    if is_noise_function(noise):
        found = _call(noise, model)
        _check_no_covariance(found)
        leaves, structure = jax.tree.flatten(found, is_leaf=_is_likelihood)
        every = [(leaf, True) for leaf in leaves]
    else:
        leaves, structure = jax.tree.flatten(noise, is_leaf=is_noise)
        every = [
            (_call(leaf, model), True) if is_noise_function(leaf) else (leaf, False)
            for leaf in leaves
        ]
    likelihoods = tuple(_likelihood(*pair) for pair in every or [(noise, False)])
    found = DataSets(likelihoods, tuple(varies for _, varies in every), structure)
    unknown = sum(one.scale_is_unknown for one in likelihoods)
    if unknown and len(likelihoods) > 1:
        raise ValueError(
            "noise of several data sets must say how they weigh against each other, "
            "got a Gaussian of unknown scale; make sigma a parameter: "
            "noise={...: lambda model: Gaussian(model.sigma)}"
        )
    return found


def _check_no_covariance(noise: Any):
    if isinstance(noise, AbstractCovariance):
        kind = type(noise).__name__
        raise ValueError(
            f"noise must be a likelihood, got the covariance {kind}; write "
            f"Gaussian(covariance={kind}(...))"
        )


def is_noise_function(noise: Any) -> bool:
    """Whether noise is a function of the model."""
    return callable(noise) and not isinstance(noise, type) and not _is_likelihood(noise)


def _is_likelihood(node: Any) -> bool:
    return not isinstance(node, type) and hasattr(node, "log_prob")


def is_noise(node: Any) -> bool:
    """Whether a node of a pytree of noise is a likelihood or a function to one."""
    return _is_likelihood(node) or callable(node)


def _call(noise: Callable, model: PyTree[Any]) -> object:
    function_of("noise", noise, ("model",))
    with explain_tracer_errors("noise", noise):
        return noise(model)


def _likelihood(found: Any, varies: bool) -> AbstractLikelihood:
    if not _is_likelihood(found):
        raise ValueError(
            "noise must be a likelihood (a Gaussian, StudentT, Poisson, ..., or any "
            "object with log_prob(prediction, data)), a dict of them, or a function "
            f"from the model to one, got {_kind(found)}; for a known standard "
            "deviation write Gaussian(sigma)"
        )
    found = found if isinstance(found, AbstractLikelihood) else CustomLikelihood(found)
    if varies and found.scale_is_unknown:
        raise ValueError("noise as a function must return a Gaussian with a sigma")
    return found


def _kind(found: Any) -> str:
    is_class = isinstance(found, type)
    return f"the class {found.__name__}" if is_class else type(found).__name__


def _with_mask(likelihood: AbstractLikelihood) -> str:
    if type(likelihood) is CustomLikelihood:
        return "an attribute "
    before = {"Gaussian": "sigma, ", "LogNormal": "sigma, ", "StudentT": "sigma, dof, "}
    kind = type(likelihood).__name__
    return f"{kind}({before.get(kind, '')}"


def _keys(tree: PyTree[Any]) -> str:
    if isinstance(tree, dict):
        return f"the keys {sorted(map(str, tree))}"
    return str(jax.tree.structure(tree))


def checked_data(
    data: PyTree[Any], sets: DataSets
) -> tuple[tuple[Array, ...], tuple[DataLayout, ...]]:
    """The data as vectors and their layouts; raises for NaN that is not masked."""
    parts = sets.split("data", data)
    labels = sets.labels()
    pairs = [
        _checked(*each) for each in zip(labels, parts, sets.likelihoods, strict=True)
    ]
    vectors, layouts = zip(*pairs, strict=True)
    return vectors, layouts


def _checked(
    name: str, data: PyTree[Any], likelihood: AbstractLikelihood
) -> tuple[Array, DataLayout]:
    for leaf in jax.tree.leaves(data):
        if isinstance(leaf, np.ma.MaskedArray):
            raise ValueError(
                f"{name} must be plain arrays, got a NumPy masked array, whose mask "
                f"would be lost; give {name}.data and Gaussian(sigma, "
                f"mask=~{name}.mask)"
            )
    leaves, structure = jax.tree.flatten(data)
    layout = DataLayout(structure, tuple(np.shape(leaf) for leaf in leaves))
    if layout.size == 0:
        raise ValueError(f"{name} must hold at least one number, got none")
    flat = as_vector([as_floating(name, leaf) for leaf in leaves])
    mask = likelihood.mask
    used = np.array(True) if mask is None else layout.flat("mask", mask)
    if is_traced(flat) or is_traced(used):
        return flat, layout
    used = np.broadcast_to(np.asarray(used), flat.shape)
    bad = np.flatnonzero(~np.isfinite(flat) & used)
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} of {flat.size} numbers that are NaN or infinite, "
            f"the first at flat position {bad[0]}; leave them out with "
            f"{_with_mask(likelihood)}mask=isfinite({name}))"
        )
    if not np.any(used):
        raise ValueError("mask leaves no data; it is True where there is a datum")
    likelihood.check_data(np.asarray(flat)[used])
    return flat, layout
