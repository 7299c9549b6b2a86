"""`AbstractReconstruction`: values on either side of the faces between cells."""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class AbstractReconstruction(eqx.Module):
    r"""Reconstruction of a field on the left and on the right of every face.

    Fields are values at the centers of cells, and so are the two at a face values at
    its middle: any flux of them, of a Riemann problem for instance, is one there. The
    numbers whose differences are derivatives at centers are not quite those:

    $$\frac{\hat f_{i+1/2} - \hat f_{i-1/2}}{\Delta x} = f'(x_i), \qquad
    \hat f = f - \tfrac{1}{24}\Delta x^2 f'' + \tfrac{7}{5760}\Delta x^4 f'''' - \dots$$

    `high_order_flux_correction` adds the rest, of order two, from the fluxes in the
    cells beside. These are finite differences that conserve, of the order of the scheme
    in any number of dimensions and for any system, where finite volumes with one flux a
    face stay of order two.

    ```python
    class Quadratic(pde.AbstractReconstruction):
        order, width, is_nonlinear = 3, 2, False

        def reconstruct(self, views):
            a, b, c, d = views
            return (-a + 6 * b + 3 * c) / 8, (3 * b + 6 * c - d) / 8
    ```

    `views` are those cells for all faces at once, arrays of one shape (..., faces, ...)
    from left to right, as many as twice the `width`; both sides have that shape too.
    `order` is what boundaries and `high_order_flux_correction` are made for. The
    weights here are for values at points, which all schemes here take; those for means
    of cells, (-a + 5 * b + 2 * c) / 6, have order 2 with them.
    """

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """Order of the error of derivatives of smooth fields."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Width of the stencil on either side of a face."""

    @abc.abstractmethod
    def reconstruct(self, views: Sequence[Array]) -> tuple[Array, Array]:
        """Values left and right of the faces.

        `views` are the 2 `width` cells around every face, from left to right. Mirrored,
        they have their sides exchanged: `advection` turns them so that the flow comes
        from the left, and asks for that side only.
        """

    @property
    def is_nonlinear(self) -> bool:
        """Whether the values look at how smooth the field is.

        `advection` makes fluxes of such schemes once, others for either cell beside
        the face.
        """
        return True

    def high_order_flux_correction(self, flux: Array, cells: Sequence[Array]) -> Array:
        """Correct fluxes so that their differences are derivatives.

        `flux` is what passes the middle of every face, `cells` are the fluxes in the
        2 `width` cells around it.
        """
        if self.order <= 2:
            return flux
        if self.order > 6:
            raise ValueError(
                f"the order of {type(self).__name__} must be at most 6, that of what "
                f"makes differences of fluxes derivatives, got {self.order}"
            )
        middle = len(cells) // 2
        first, second = (cells[middle - 1 - i] + cells[middle + i] for i in (0, 1))
        if self.order <= 4:
            return flux + (first - second) / 48
        third = cells[middle - 3] + cells[middle + 2]
        return flux + (118 * first - 137 * second + 19 * third) / 3840


def reconstruct_both_sides(
    scheme: AbstractReconstruction, views: Sequence[Array]
) -> tuple[Array, Array]:
    """Reconstruct both sides of faces by `scheme`, and check what it returns."""
    sides, shape = scheme.reconstruct(views), views[0].shape
    listed = isinstance(sides, tuple | list)
    got = list(map(jnp.shape, sides)) if listed else getattr(sides, "shape", sides)
    if got != [shape, shape]:
        raise ValueError(
            f"{type(scheme).__name__}.reconstruct must return two arrays, left and "
            f"right of the faces, of the shape of each view, {shape}, got {got}"
        )
    left, right = sides
    return left, right


def rounding(values: Sequence[Array]) -> Array:
    """The square of what is rounding beside `values`, and never zero.

    Differences far below its root change nothing that a weight is made of. Its third
    power is a number, so that second derivatives of what is divided by it are.
    """
    precision = jnp.finfo(values[0].dtype)
    squares = sum((value**2 for value in values[1:]), start=values[0] ** 2)
    return float(precision.eps) * squares + float(precision.tiny) ** 0.32
