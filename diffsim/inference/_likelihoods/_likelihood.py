"""`AbstractLikelihood`: how data scatter around a prediction.

`Posterior` adds the priors.
"""

import abc
import contextlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..._types import PyTree
from ..._validation import as_floating, as_vector, finite, is_traced, positive


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
            hint = "; a list is a pytree of as many numbers, and np.asarray(...) makes "
            hint += "one array of it"
            lists = isinstance(tree, list | tuple) or isinstance(like, list | tuple)
            raise ValueError(
                f"{name} must be a pytree like the data, {_in_words(like)}, got "
                f"{_in_words(tree)}{hint if lists else ''}"
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
        return self.flat(name, tree)

    def rows(self, indices: Array) -> Array:
        """Flat positions of rows of data that are one array."""
        (shape,) = self.shapes
        width = int(np.prod(shape[1:], dtype=int))
        return (indices[:, None] * width + jnp.arange(width)).reshape(-1)

    def unflatten(self, vector: Array) -> PyTree[Array]:
        """A vector of data as a pytree like the data."""
        sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        pieces = jnp.split(vector, np.cumsum(sizes)[:-1])
        leaves = [x.reshape(s) for x, s in zip(pieces, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


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
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return f"a dict with the keys {sorted(tree)}"
    if type(tree) not in (list, tuple) or not jax.tree_util.all_leaves(tree):
        return str(structure)
    numbers = all(np.ndim(leaf) == 0 for leaf in tree)
    count, kind = len(tree), "number" if numbers else "array"
    return f"a {type(tree).__name__} of {count} {kind}{'s' if count != 1 else ''}"


class AbstractComparison(eqx.Module):
    r"""A prediction beside its data, as a likelihood sees them.

    `numbers` are all that the likelihood depends on: the prediction, and if it `varies`
    with the model what the noise is made of, as ln σ. With g the gradient of the loss
    in them and M their expected information,

    - `whiten` is a linear map W with $W^TW = M$,
    - `rows` are e with $W^Te = g$,

    so that, with A the whitened derivative of the numbers by the parameters, $A^Te$ is
    the gradient by the parameters and $A^TA$ their expected information. Where not
    `expected`, M may be a curvature that steps are safer with.
    """

    used: eqx.AbstractVar[Bool[Array, " datum"] | None]
    varies: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def numbers(self) -> Float[Array, " number"]:
        """Prediction and varying numbers of the noise, as one vector."""

    @abc.abstractmethod
    def loss(self) -> Float[Array, ""]:
        """−ln L, less what does not vary."""

    @abc.abstractmethod
    def log_prob(self) -> Float[Array, ""]:
        """ln L of the data that are used."""

    def losses(self) -> Float[Array, " datum"]:
        """`loss` datum by datum; raises `ValueError` where data are not independent."""
        raise ValueError(
            "data that are correlated, or whose log_prob is one number for all, have "
            "no loss each; take independent noise, such as Gaussian(sigma)"
        )

    @abc.abstractmethod
    def rows(self, expected: Any) -> Float[Array, " row"]:
        """The gradient of the loss in units of the expected information."""

    @abc.abstractmethod
    def whiten(
        self, tangent: Float[Array, " number"], expected: Any
    ) -> Float[Array, " row"]:
        """A change of the numbers in the same units."""

    def room(self) -> Float[Array, "..."]:
        """How far rows go until the range of a prediction ends, where data lie there.

        Infinite elsewhere: the loss has a minimum before, or the range no end.
        """
        return jnp.full(jnp.shape(self.rows(False)), jnp.inf)

    @abc.abstractmethod
    def residuals(self) -> Float[Array, " datum"]:
        """(prediction − data) in standard deviations; 0 where masked."""

    @abc.abstractmethod
    def moments(self) -> tuple[Float[Array, " datum"], Float[Array, " datum"]]:
        """Mean and standard deviation of each datum by the prediction."""

    @abc.abstractmethod
    def size(self) -> int | Array:
        """Number of data that are used."""


class AbstractLikelihood(eqx.Module):
    """The distribution of data, given a prediction; the base of all of them.

    Subclasses say how a prediction compares with data laid out as one vector.
    """

    mask: eqx.AbstractVar[PyTree[Any]]

    @abc.abstractmethod
    def compare(
        self,
        prediction: Float[Array, " datum"],
        data: Float[Array, " datum"] | None,
        layout: DataLayout,
        varies: bool = False,
    ) -> AbstractComparison:
        """The prediction beside the data; beside itself where there are none."""

    @abc.abstractmethod
    def draw(
        self, key: Array, prediction: Float[Array, " datum"], layout: DataLayout
    ) -> Float[Array, " datum"]:
        """Data drawn from the distribution, as one vector."""

    @property
    def convention(self) -> str:
        """A clause on what error bars follow from."""
        return "from the likelihood: error bars not rescaled"

    @property
    def judges_misfit(self) -> bool:
        """Whether χ² over its degrees of freedom is near 1 in a good fit."""
        return True

    def has_information(self, size: int, varies: bool) -> bool:
        """Whether the expected information of so many data has a formula."""
        del size, varies
        return True

    @property
    def can_draw(self) -> bool:
        """Whether data can be drawn from it."""
        return True

    @property
    def scale_is_unknown(self) -> bool:
        """Whether the size of the noise is estimated from the residuals."""
        return False

    def log_prob(self, prediction: PyTree[Any], data: PyTree[Any]) -> Float[Array, ""]:
        """Logarithm of the probability (density) of `data`, of those not masked."""
        layout = self.layout(prediction) if data is None else data_layout(data)
        flat = self.flat_prediction(prediction, layout)
        vector = as_vector([as_floating("data", x) for x in jax.tree.leaves(data)])
        return self.compare(flat, vector, layout, True).log_prob()

    def sample(self, key: Array, prediction: PyTree[Any]) -> PyTree[Array]:
        """Draw data around a prediction with a `jax.random` key."""
        layout = self.layout(prediction)
        flat = self.flat_prediction(prediction, layout)
        return layout.unflatten(self.draw(key, flat, layout))

    def layout(self, prediction: PyTree[Any]) -> DataLayout:
        """The layout of data that go with a prediction."""
        return data_layout(prediction)

    def flat_prediction(
        self, prediction: PyTree[Any], layout: DataLayout
    ) -> Float[Array, " number"]:
        """A prediction for data of this layout as one vector."""
        return layout.flat("the prediction", prediction)

    def used(self, layout: DataLayout) -> Bool[Array, " datum"] | None:
        """Where there is a datum that counts; None without a mask."""
        if self.mask is None:
            return None
        return jnp.asarray(layout.flat("mask", self.mask))

    def check_data(self, data: np.ndarray) -> None:
        """Raise `ValueError` for data (those in use) that cannot come of this noise."""
        del data


def where_used(used: Array | None, x: Array, fill: Any) -> Array:
    """`x`, and `fill` where there is no datum."""
    return x if used is None else jnp.where(used, x, fill)


def count_used(used: Array | None, size: int) -> int | Array:
    """Number of data that are used."""
    return size if used is None else jnp.sum(used)


def check_mask(mask: PyTree[Any]):
    """Raise `ValueError` unless a mask is of booleans."""
    for leaf in jax.tree.leaves(mask):
        dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
        if dtype.kind != "b":
            raise ValueError(
                f"mask must be boolean, True where there is a datum, got dtype {dtype}"
            )


def as_scale(
    name: str,
    given: PyTree[Any],
    mask: PyTree[Any],
    why: str = "it is a standard deviation",
) -> PyTree[Any]:
    """Return a pytree of positive finite numbers as arrays, checked where in use."""
    # Arrays, so that another value compiles nothing new.
    arrays = jax.tree.map(lambda leaf: as_floating(name, leaf), given)
    leaves = jax.tree.leaves(arrays)
    masks = [None] * len(leaves)
    if jax.tree.structure(arrays) == jax.tree.structure(mask):
        masks = jax.tree.leaves(mask)
    for leaf, used in zip(leaves, masks, strict=True):
        if used is not None and np.ndim(leaf):
            if is_traced(used):
                continue
            if not is_traced(leaf):
                # Shapes that differ are explained by `DataLayout`.
                with contextlib.suppress(ValueError):
                    leaf = np.where(used, leaf, 1)
        positive(name, leaf, why)
        finite(name, leaf, "leave a datum out by mask=, False where there is none")
    return arrays
