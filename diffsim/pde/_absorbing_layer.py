"""`absorbing_layer`: damping that grows towards the boundary."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Numbers
from .._validation import as_floating, positive, scalar
from ._grid import Grid


def absorbing_layer(
    grid: Grid,
    width: Numbers,
    strength: Numbers,
    *,
    sides: Sequence[tuple[int, int]] | None = None,
    power: int = 3,
) -> Float[Array, " *grid"]:
    r"""Absorbing layer, $\sigma = \sum \sigma_0\,(1 - d/w)^p$ at distances d below w.

    ```python
    def pulse(x):
        u = jnp.exp(-((x[0] - 5) ** 2)) * jnp.cos(10 * x[0])
        return jnp.stack([u, 0 * u])  # from rest

    line = pde.Grid(400, 0.0, 10.0)
    damping = pde.absorbing_layer(line, width=1.5, strength=25.0)
    sea = pde.Evolution(pde.Wave(1.0, damping), pulse, line, pde.Dirichlet())
    run = ds.simulate(sea, 10.0, ds.Method(integrators.Leapfrog(), 0.02))
    jnp.max(jnp.abs(run.states[0]))  # 3e-4 is left of it
    ```

    The `damping` of a `Wave` that is to leave the grid as if it went on.

    **Arguments**

    - `grid`: a `Grid`.
    - `width`: w, length; `strength`: σ₀ at the boundary, 1 / time.
    - `sides`: pairs (axis, end) with end 0 where the axis begins and 1 where it ends;
        None is all of them.
    - `power`: p, positive. Where layers meet, as in corners, they add up.

    **Good values:** w of two to three wavelengths and σ₀ = 40 c/w. In 20 cells and at
    steps of Δx/2c, of packets with 8, 10 and 12 cells a wave 1e-4, 1e-3 and 5e-3 come
    back, and 6e-2 of those with 20: there is no short layer for long waves. Weaker
    layers let the wave through to the boundary, stronger ones send it back themselves.

    **Raises:** `ValueError` for a width, strength or power that is not positive, and
    for sides that the grid has not.
    """
    width = as_floating("width", positive("width", scalar("width", width)))
    hint = "leave damping away where there is none"
    strength = positive("strength", scalar("strength", strength), hint)
    strength = as_floating("strength", strength)
    positive("power", power)
    all_sides = [(axis, end) for axis in range(grid.ndim) for end in (0, 1)]
    chosen = all_sides if sides is None else list(sides)
    if not set(chosen) <= set(all_sides) or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"sides must be among {all_sides}, (axis, end), each of them once, got "
            f"{sides}"
        )
    total = jnp.zeros(grid.shape, grid.lower.dtype)
    for axis, end in chosen:
        x = grid.centers[axis]
        distance = grid.upper[axis] - x if end else x - grid.lower[axis]
        depth = jnp.where(distance < width, 1 - distance / width, 0)
        total = total + strength * depth**power
    return total
