"""What belongs to one axis of a field."""

from jaxtyping import Array

from .._products import product


def on_axis(values: Array, axis: int, ndim: int) -> Array:
    """A vector along one of so many axes, to broadcast."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def product_along(axis: int, matrix: Array, x: Array) -> Array:
    """A matrix times every line of x along one of its axes."""
    if axis == x.ndim - 1:
        return product(x, matrix.T)
    wide = x.reshape(*x.shape[: axis + 1], -1)
    shape = *x.shape[:axis], matrix.shape[0], *x.shape[axis + 1 :]
    return product(matrix, wide).reshape(shape)
