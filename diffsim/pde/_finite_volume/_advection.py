"""Advection by a given velocity."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._materialize import compute_anew, materialize
from ..._jit._fresh_jit import fresh_jit
from ..._validation import as_floating, instance, or_default
from .._domain import Domain, as_field
from .._stencils import divergence
from ._muscl import MUSCL
from ._operators import shapes_on_faces
from ._reconstruction import AbstractReconstruction, reconstruct_both_sides


class FaceVelocities(NamedTuple):
    """Velocity across the faces of one axis, and in the cells beside them."""

    face: Array
    cells: Sequence[Array]


@fresh_jit
def advection(
    u: Array,
    velocity: Any,
    domain: Domain,
    t: Any = 0.0,
    *,
    scheme: AbstractReconstruction | None = None,
) -> Array:
    r"""Advection $-\nabla\cdot(\mathbf v\,u)$ in every cell.

    ```python
    square = pde.Domain(pde.Grid((64, 64), -1.0, 1.0))
    x, y = square.grid.centers
    u = jnp.exp(-20 * (x**2 + (y - 0.3) ** 2))
    rate = pde.advection(u, jnp.stack([-y, x]), square)  # by a flow that turns
    jnp.sum(rate)  # 0
    ```

    What leaves a cell enters its neighbor: the sum over cells changes by what passes
    the boundary, to machine precision. Add $u\,\nabla\cdot\mathbf v$, by `divergence`,
    for what is carried along without being conserved.

    **Arguments**

    - `u`: shape (..., *grid).
    - `velocity`: length / time: a number for all axes; one an axis, shape (axis,); a
        field in the cells, shape (axis, *grid); or a tuple of fields on the faces
        across each axis, with one more along it than there are cells.
    - `domain`, `t`: the grid and its boundaries, taken at the time `t`.
    - `scheme`: what stands on either side of a face, of which the flow takes the side
        that it comes from; None is `MUSCL()`. See `Upwind`, `Central`, `WENO5`.

    **Good values:** an `Inflow` where the flow enters and an `Outflow` where it leaves.

    **Raises:** `ValueError` for fields and velocities that do not fit the grid.

    **Limits:** of the order of the scheme; of order 2 where a velocity on faces varies
    across them (convenience). The derivative by a velocity that is zero is that of a
    flow towards larger x (mathematics: of a flow back it is another).
    """
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    scheme = or_default("scheme", scheme, AbstractReconstruction, default=MUSCL())
    u = as_field(u)
    faces = domain.face_neighbors(u, t, width=scheme.width, order=scheme.order)
    spacing = domain.grid.spacing.astype(u.dtype)
    flows = face_velocities(velocity, domain, scheme, u.dtype)
    fluxes = []
    for flow, views, dx in zip(flows, faces, spacing, strict=True):
        # Cells a time first: a quotient of every flux takes a quarter of the step.
        per_length = 1 / dx
        cells = [v * per_length for v in flow.cells]
        flow = FaceVelocities(flow.face * per_length, cells)
        flux = _advected_flux(scheme, flow, views, _is_from_left(flow.face, u))
        fluxes.append(materialize(flux) if scheme.is_nonlinear else flux)
    return -divergence(fluxes)


def face_velocities(
    velocity: Any, domain: Domain, scheme: AbstractReconstruction, dtype: Any
) -> list[FaceVelocities]:
    """A velocity, however it was given, across the faces of each axis."""
    ndim = domain.grid.ndim
    velocity = validate_velocity(velocity, domain)
    if isinstance(velocity, tuple):
        faces = [face.astype(dtype) for face in velocity]
        return [FaceVelocities(face, [face]) for face in faces]
    velocity = velocity.astype(dtype)
    if velocity.ndim <= 1:
        return [FaceVelocities(v, [v]) for v in jnp.broadcast_to(velocity, (ndim,))]
    # Schemes of order 2 and less need no flux in cells.
    width, order = (scheme.order + 1) // 2, max(scheme.order, 2)
    width = max(width, scheme.width) if scheme.order > 2 else width
    views = domain.with_extrapolated_boundaries.face_neighbors(
        velocity, width=width, order=order
    )
    flows = []
    for axis, around in enumerate(views):
        cells = [v[axis] for v in around]
        nearest = _center_cells(cells, 2 * ((scheme.order + 1) // 2))
        flows.append(FaceVelocities(_face_interpolation(nearest), cells))
    return flows


def validate_velocity(velocity: Any, domain: Domain) -> Array | tuple[Array, ...]:
    """A velocity as numbers or cell-centered fields, or a tuple of fields on faces."""
    shape, ndim = domain.grid.shape, domain.grid.ndim
    on_faces = shapes_on_faces(shape)
    if isinstance(velocity, tuple | list) and any(map(np.ndim, velocity)):
        got = [np.shape(v) for v in velocity]
        if got == on_faces:
            return tuple(as_floating("velocity", v) for v in velocity)
    else:
        velocity = as_floating("velocity", velocity)
        got = velocity.shape
        if got in ((), (ndim,), (ndim, *shape)):
            return velocity
    raise ValueError(
        f"velocity must be a number, one an axis, shape {(ndim,)}, one array of fields "
        f"in the cells, shape {(ndim, *shape)}, or a tuple of fields on the faces, "
        f"shapes {on_faces}, got shape {got}"
    )


def _is_from_left(face: Array, u: Array) -> Array:
    """Compare where the flow comes from the left, anew for every `u`.

    XLA would keep the answers from step to step, and reading them makes a step a
    quarter longer than comparing does.
    """
    return compute_anew(face, u) >= 0


def _advected_flux(
    scheme: AbstractReconstruction,
    flow: FaceVelocities,
    views: Sequence[Array],
    forth: Array,
) -> Array:
    """The flux of the field in `views`, from the side that the flow comes from."""
    # Views are turned first, so that the scheme evaluates the one side that counts.
    pairs = zip(views, reversed(views), strict=True)
    turned = [jnp.where(forth, *pair) for pair in pairs]
    flux = flow.face * reconstruct_both_sides(scheme, turned)[0]
    speeds = _center_cells(flow.cells, len(views))
    if len(speeds) != len(views):
        speeds = [flow.face] * len(views)
    return scheme.high_order_flux_correction(
        flux, [v * view for v, view in zip(speeds, views, strict=True)]
    )


def _center_cells(cells: Sequence[Array], count: int) -> Sequence[Array]:
    """The `count` cells around the face, or all where there are fewer."""
    beyond = max(len(cells) - count, 0) // 2
    return cells[beyond : len(cells) - beyond]


def _face_interpolation(cells: Sequence[Array]) -> Array:
    """The polynomial through the cells around a face."""
    middle = len(cells) // 2
    pairs = [cells[middle - 1 - i] + cells[middle + i] for i in range(middle)]
    if middle == 1:
        return pairs[0] / 2
    if middle == 2:
        return (9 * pairs[0] - pairs[1]) / 16
    return (150 * pairs[0] - 25 * pairs[1] + 3 * pairs[2]) / 256
