"""Power spectra."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._parameter_selection import cast
from .._domain import Domain, as_field
from .._fourier import FourierBasis, hermitian_weights
from .._grid import Grid


@eqx.filter_jit
def spectrum(u: Array, grid: Grid) -> tuple[Array, Array]:
    r"""Power of a periodic field by shells of wavenumber.

    $$P_n = \frac1{N^2}\sum_{|k|\,\in\,\text{shell } n} |\hat u_k|^2, \qquad
      \bigl(n - \tfrac12\bigr)\Delta k \le |k| < \bigl(n + \tfrac12\bigr)\Delta k$$

    with $\Delta k = 2\pi/L$ of the shortest side L. The sum over shells is the mean of
    $u^2$ (Parseval); half the sum over components of a velocity is the energy spectrum:

    ```python
    def stripes(x):
        return jnp.sin(3 * x[0]) + 0.1 * jnp.cos(8 * x[1])

    torus = pde.Grid((32, 32), 0.0, 2 * np.pi)
    flow = pde.Evolution(pde.NavierStokesVorticity(0.01), stripes, torus)
    run = ds.simulate(flow, [0.0, 1.0], ds.Method(integrators.ETDRK4(), step=0.1))
    k, power = pde.spectrum(pde.velocity(flow, run.states), torus)
    energy = power.sum(-2) / 2  # (time, shell); at first in the shells of 3 and 8
    ```

    **Arguments**

    - `u`: shape (..., *grid), one field or states with their times.
    - `grid`: the `Grid`, periodic along every axis.

    **Returns:** the wavenumbers $n\,\Delta k$ from zero, shape (shell,), and P, shape
    (..., shell).

    **Raises:** `ValueError` for a field that does not fit the grid.

    **Limits:** shells are as wide as the shortest side says, so in a long box they hold
    many modes (convenience); those beyond the smallest $n_a/2$ are not full
    (mathematics).
    """
    u = as_field(u)
    Domain(grid).check(u)
    modes = FourierBasis(cast(grid, u.dtype))
    step = jnp.max(2 * jnp.pi / (modes.grid.upper - modes.grid.lower))
    # The longest wavevector, were all sides as short.
    count = int(np.hypot.reduce([n // 2 for n in grid.shape]) + 0.5) + 1
    # Halves are rounded up, also where rounding made them smaller.
    shells = jnp.floor(jnp.sqrt(modes.wavenumber_squared) / step + 0.5001).astype(int)
    z = modes.fft(u)
    weights = hermitian_weights(grid.shape[-1], z.shape[-1])
    weights = weights / np.prod(grid.shape) ** 2.0
    power = jnp.asarray(weights, u.dtype) * (z.real**2 + z.imag**2)
    power = power.reshape(*power.shape[: -grid.ndim], -1)
    summed = jax.ops.segment_sum(jnp.moveaxis(power, -1, 0), shells.ravel(), count)
    wavenumbers = step * jnp.arange(count, dtype=u.dtype)
    return wavenumbers, jnp.moveaxis(summed, 0, -1)
