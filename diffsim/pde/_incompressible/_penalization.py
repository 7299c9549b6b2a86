"""`Obstacle`: volume penalization, whose shape has derivatives."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import check_signs
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating, function_of
from .._boundaries import array_or_function


class Obstacle(eqx.Module):
    r"""Obstacle in a flow, by Brinkman penalization:

    $$u_t = \ldots - \frac{\chi(x)}{\eta}(u - u_b), \qquad
      \chi = \tfrac12\Bigl(1 - \tanh\frac{d(x)}{w}\Bigr)$$

    χ is smooth, so that everything has a derivative by what shapes the body.

    ```python
    cylinder = pde.Obstacle(pde.Ball((0.5, 0.5), 0.1))
    grid = pde.Grid((48, 32), 0.0, (1.5, 1.0))
    walls = (pde.Inflow((1.0, 0.0)), pde.Outflow()), pde.FreeSlip()
    flow = pde.IncompressibleFlow(0.01, grid, walls, obstacle=cylinder)
    run = ds.simulate(flow, [0.2, 0.4], observe=flow.force)
    run.states[:, 0]  # the drag
    ```

    **Arguments**

    - `distance`: d, length: a function of x, shape (axis, ...), that is negative inside
        of the body and positive outside, and grows by one a length at its surface: a
        `Ball` or any `eqx.Module`. What floats in it is a parameter. Through a
        periodic side the body goes on at the other.
    - `velocity`: $u_b$, length / time: a number, one an axis, or a function of (t, x).
    - `penalization_time`: η, in which the fluid inside comes to the velocity of the
        body.
    - `mask_width`: w, length; None is the length of the shortest side of a cell.

    **Good values:** η of two steps, which an explicit method needs for stability, and a
    hundredth of the time in which the flow passes the body; ten cells across it. Flow
    seeps in by $\sqrt{\nu\eta}$.

    **Raises:** `ValueError` for a time or width that is not positive.

    **Limits:** of order one in w and $\sqrt\eta$ at the surface (mathematics of the
    penalization); the body does not change its place (convenience).
    """

    distance: Any
    velocity: Any
    penalization_time: Array
    mask_width: Array | None

    references: ClassVar[tuple[str, ...]] = ("10.1007/s002110050401",)

    def __init__(
        self,
        distance: Any,
        *,
        velocity: Numbers | Any = 0.0,
        penalization_time: Numbers = 1e-2,
        mask_width: Numbers | None = None,
    ):
        self.distance = function_of("distance", distance, ("x",))
        self.velocity = array_or_function("velocity", velocity)
        self.penalization_time = as_floating("penalization_time", penalization_time)
        self.mask_width = (
            None if mask_width is None else as_floating("mask_width", mask_width)
        )

    def __check_init__(self) -> None:
        check_signs(self.positive_parameters())

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        """Parameters that must be positive."""
        distance, eta = self.distance, self.penalization_time
        return (
            PositiveParameter(
                "penalization_time", eta, hint="a smaller one is less permeable"
            ),
            PositiveParameter("mask_width", self.mask_width, hint="one cell is sharp"),
            *(distance.positive_parameters() if isinstance(distance, Ball) else ()),
        )

    def inside(self, x: Array, spacing: Array, shifts: Array) -> Array:
        """χ at the coordinates `x`, shape (axis, ...), of all of its images.

        One stands at each of `shifts`, shape (image, axis), from the body.
        """
        mask_width = jnp.min(spacing) if self.mask_width is None else self.mask_width

        def outside(shift):
            place = x - shift.reshape(-1, *[1] * (x.ndim - 1))
            distance = jnp.asarray(self.distance(place), x.dtype)
            return (1 + jnp.tanh(distance / jnp.asarray(mask_width, x.dtype))) / 2

        return 1 - jnp.prod(jax.vmap(outside)(shifts), axis=0)


class Ball(eqx.Module):
    r"""A disk or a ball, as $d(x) = (|x - c|^2 - r^2)/2r$.

    The distance to its surface near to it, and smooth in its center as well.

    ```python
    disk = pde.Ball(center=(0.5, 0.5), radius=0.2)
    disk(jnp.array([0.5, 0.7]))  # 0: on its surface

    grid = pde.Grid((40, 40))
    walls = (pde.Inflow((1.0, 0.0)), pde.Outflow()), pde.FreeSlip()
    flow = pde.IncompressibleFlow(0.01, grid, walls, obstacle=pde.Obstacle(disk))
    ```

    **Arguments**

    - `center`: c, one number an axis; `radius`: r; lengths.

    **Raises:** `ValueError` for a radius that is not positive.
    """

    center: Array
    radius: Array

    def __init__(self, center: Numbers, radius: Numbers):
        self.center = as_floating("center", center)
        self.radius = as_floating("radius", radius)

    def __check_init__(self) -> None:
        check_signs(self.positive_parameters())

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        """Parameters that must be positive."""
        return (PositiveParameter("radius", self.radius),)

    def __call__(self, x: Array) -> Array:
        center = self.center.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
        radius = self.radius.astype(x.dtype)
        return (jnp.sum((x - center) ** 2, axis=0) - radius**2) / (2 * radius)
