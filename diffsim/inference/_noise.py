"""`Gaussian`: the noise of data."""

import contextlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._tracer_errors import explain_tracer_errors
from .._types import PyTree
from .._validation import (
    as_floating,
    as_vector,
    check_positive,
    check_signature,
    is_traced,
)


class Gaussian(eqx.Module):
    r"""Independent Gaussian noise: data = prediction + σ · N(0, 1).

    $$-\ln L = \sum_i \tfrac12 \left(\frac{d_i - \mu_i}{\sigma_i}\right)^2
        + \ln\sigma_i + \tfrac12\ln 2\pi$$

    ```python
    t = jnp.linspace(0.0, 10.0, 50)
    data = 3 + 0.5 * t + 0.2 * jax.random.normal(jax.random.key(0), t.shape)
    data = data.at[7].set(jnp.nan)

    def line(model):
        return model["height"] + model["slope"] * t

    def noise(model):  # how large it is, the data tell
        return inference.Gaussian(model["jitter"], mask=~jnp.isnan(data))

    start = {"height": 0.0, "slope": 0.0, "jitter": 1.0}
    ds.fit(line, start, data, noise=noise)
    ```

    **Arguments**

    - `sigma`: the standard deviation in the units of the data: a number for all data,
        or a pytree like the data whose leaves are numbers or arrays that broadcast to
        the data's. Error bars then follow from it without rescaling. None: the same
        unknown standard deviation for all data, judged from the residuals,
        $s = \sqrt{RSS/(N - n)}$, and error bars scale with it; this is what NIST,
        SciPy's `curve_fit` and lmfit do by default.
    - `mask`: True where there is a datum, False where it is missing; a pytree like the
        data, of booleans. What lies under False in data and sigma, NaN included, is
        never used. (It is `numpy.ma`'s mask inverted.)

    `fit` and `fisher` also take a function from the model to a `Gaussian`,
    `noise=lambda model: Gaussian(model.jitter)`: then numbers in the noise are
    parameters like any other, and ln σ enters the objective and the Fisher matrix.

    **Raises:** `ValueError` for a sigma that is not positive, or infinite: what is not
    measured is masked. And for a covariance matrix; one of positive entries, beside
    data of its own shape, is an array of σ.

    **Limits:** no correlations between data (convenience); of a covariance matrix C
    multiply data and prediction by `inv(cholesky(C))`, which makes their noise
    independent, and give `Gaussian(1.0)`. A prediction may be NaN under the mask where
    its derivative is taken forward, as Levenberg-Marquardt does; reverse mode makes NaN
    of zero times NaN inside `predict` (mathematics).
    """

    sigma: PyTree[Any]
    mask: PyTree[Any]

    def __init__(self, sigma: PyTree[Any] = None, *, mask: PyTree[Any] = None):
        for leaf in jax.tree.leaves(mask):
            dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
            if dtype.kind != "b":
                raise ValueError(
                    "mask must be boolean, True where there is a datum, got dtype "
                    f"{dtype}"
                )
        # Arrays, so that another value compiles nothing new.
        self.sigma = jax.tree.map(lambda leaf: as_floating("sigma", leaf), sigma)
        self.mask = mask
        if mask is None:
            _check_no_covariance(self.sigma)
        for leaf in _used(sigma, mask):
            check_positive("sigma", leaf, "it is a standard deviation")
            _check_finite_noise(leaf)


def _check_finite_noise(sigma: Any):
    """Refuse what would count as a datum and weigh nothing."""
    if not is_traced(sigma) and not np.all(np.isfinite(np.asarray(sigma, float))):
        raise ValueError(
            "sigma must be finite, got inf; leave a datum out by mask=, False where "
            "there is none"
        )


def _check_no_covariance(sigma: PyTree[Any]):
    """Refuse a matrix that can only be meant as a covariance."""
    shape = np.shape(sigma) if eqx.is_array(sigma) else ()
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2 or is_traced(sigma):
        return
    matrix: Any = np.asarray(sigma)
    diagonal = np.diagonal(matrix)
    others = matrix[~np.eye(len(matrix), dtype=bool)]
    symmetric = np.array_equal(matrix, matrix.T)
    # A table of standard deviations has no zero, and is no positive definite matrix
    # with a diagonal of its own by chance.
    if symmetric and np.all(diagonal > 0) and np.any(others <= 0):
        raise _covariance_error(shape)


def _covariance_error(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"sigma of shape {shape} looks like a covariance matrix C; sigma are standard "
        "deviations, one a datum: give sqrt(diagonal(C)), or, where noise is "
        "correlated, Gaussian(1.0) beside data and a prediction that are both "
        "multiplied by inv(cholesky(C))"
    )


def _used(sigma: PyTree[Any], mask: PyTree[Any]) -> list[Any]:
    """The leaves of sigma, where they are arrays with 1 for what is masked."""
    leaves, masks = jax.tree.leaves(sigma), jax.tree.leaves(mask)
    if jax.tree.structure(sigma) != jax.tree.structure(mask):
        return leaves
    pairs = list(zip(leaves, masks, strict=True))
    known = [pair for pair in pairs if np.ndim(pair[0]) == 0 or not is_traced(pair[1])]
    return [_fill_masked(*pair) for pair in known]


def _fill_masked(sigma: Any, used: Any) -> object:
    if is_traced(sigma) or np.ndim(sigma) == 0:
        return sigma
    try:
        return np.where(used, sigma, 1)
    except (
        ValueError
    ):  # their shapes differ, which `DataLayout` says of the data as well
        return sigma


class DataLayout(eqx.Module):
    """Shapes of the data: how pytrees are flattened to one vector of data."""

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape, dtype=int)) for shape in self.shapes)

    def flat(self, name: str, tree: PyTree[Any]) -> Array:
        """`tree` as one vector; objects unless it is laid out like the data."""
        if jax.tree.structure(tree) != self.structure:
            arrays = [np.broadcast_to(0.0, shape) for shape in self.shapes]
            like = jax.tree.unflatten(self.structure, arrays)
            raise ValueError(
                f"{name} must be a pytree like the data, {_in_words(like)}, got "
                f"{_in_words(tree)}; a list is a pytree of as many numbers, "
                "and np.asarray(...) makes one array of it"
            )
        leaves = jax.tree.leaves(tree)
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            if np.shape(leaf) != shape:
                raise ValueError(
                    f"{name} must have the shape of the data, {shape}, got "
                    f"{np.shape(leaf)}"
                )
        return as_vector(leaves)

    def broadcast(self, name: str, tree: PyTree[Any]) -> Array:
        """Like `flat`, but leaves broadcast, and one number stands for all data."""
        leaves, structure = jax.tree.flatten(tree)
        if jax.tree_util.treedef_is_leaf(structure) and np.shape(leaves[0]) == ():
            tree = jax.tree.unflatten(self.structure, leaves * len(self.shapes))
        if jax.tree.structure(tree) == self.structure:
            pairs = zip(jax.tree.leaves(tree), self.shapes, strict=True)
            with contextlib.suppress(ValueError):
                return as_vector(
                    [jnp.broadcast_to(jnp.asarray(x), s) for x, s in pairs]
                )
        self._object_to_covariance(tree)
        return self.flat(name, tree)

    def _object_to_covariance(self, sigma: PyTree[Any]):
        """Refuse a square matrix with a row a datum, of one leaf or of all data."""
        sizes = {self.size, *(int(np.prod(shape, dtype=int)) for shape in self.shapes)}
        for shape in map(np.shape, jax.tree.leaves(sigma)):
            if len(shape) == 2 and shape[0] == shape[1] > 1 and shape[0] in sizes:
                raise _covariance_error(shape)


def data_layout(tree: PyTree[Any]) -> DataLayout:
    """The layout of data, or of a prediction where there are none."""
    leaves, structure = jax.tree.flatten(tree)
    return DataLayout(structure, tuple(np.shape(leaf) for leaf in leaves))


def _in_words(tree: PyTree[Any]) -> str:
    """Return the words for a tree, of a deeper one its structure."""
    if tree is None:
        return "None"
    structure = jax.tree.structure(tree)
    if jax.tree_util.treedef_is_leaf(structure):
        return "one array" if np.ndim(tree) else "one number"
    if type(tree) not in (list, tuple) or not jax.tree_util.all_leaves(tree):
        return str(structure)
    numbers = all(np.ndim(leaf) == 0 for leaf in tree)
    count, kind = len(tree), "number" if numbers else "array"
    return f"a {type(tree).__name__} of {count} {kind}{'s' if count != 1 else ''}"


def checked_data(data: PyTree[Any], noise: Gaussian) -> tuple[Array, DataLayout]:
    """The data as a vector and their layout; raises for NaN that is not masked."""
    for leaf in jax.tree.leaves(data):
        if isinstance(leaf, np.ma.MaskedArray):
            raise ValueError(
                "data must be plain arrays, got a NumPy masked array, whose mask would "
                "be lost; give data.data and Gaussian(sigma, mask=~data.mask)"
            )
    shape = data_layout(data)
    if shape.size == 0:
        raise ValueError("data must hold at least one number, got none")
    flat = as_vector([as_floating("data", leaf) for leaf in jax.tree.leaves(data)])
    used = np.array(True) if noise.mask is None else shape.flat("mask", noise.mask)
    if is_traced(flat) or is_traced(used):
        return flat, shape
    bad = np.flatnonzero(~np.isfinite(flat) & np.asarray(used))
    if bad.size:
        raise ValueError(
            f"data has {bad.size} of {flat.size} numbers that are NaN or infinite, the "
            f"first at flat position {bad[0]}; leave them out with "
            "Gaussian(sigma, mask=isfinite(data))"
        )
    if not np.any(used):
        raise ValueError("mask leaves no data; it is True where there is a datum")
    return flat, shape


def _kind(found: Any) -> str:
    is_class = isinstance(found, type)
    return f"the class {found.__name__}" if is_class else type(found).__name__


def noise_at(noise: Any, model: PyTree[Any]) -> Gaussian:
    """The `Gaussian` of `model`; objects unless `noise` is one or a function to one."""
    found = noise
    if callable(noise) and not isinstance(noise, type):
        check_signature("noise", noise, ("model",))
        with explain_tracer_errors("noise", noise):
            found = noise(model)
    if not isinstance(found, Gaussian):
        raise ValueError(
            "noise must be a Gaussian or a function from the model to one, got "
            f"{_kind(found)}; for a known standard deviation write "
            "Gaussian(sigma)"
        )
    if callable(noise) and found.sigma is None:
        raise ValueError("noise as a function must return a Gaussian with a sigma")
    return found
