"""`Semilinear`: dynamics with a linear part that is diagonal in known coordinates."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._linalg import real_times
from ._imex import AbstractIMEXTerm


class Semilinear(AbstractIMEXTerm):
    r"""$\dot{\hat y} = L\,\hat y + \hat N(t, \hat y)$ with L diagonal, $\hat y = Fy$.

    ```python
    k = 2 * jnp.pi * jnp.fft.rfftfreq(64, 1 / 64)  # of Burgers' equation on a ring

    def steepening(t, z, args):
        return -0.5j * k * jnp.fft.rfft(jnp.fft.irfft(z) ** 2)

    transforms = {"forward": jnp.fft.rfft, "backward": jnp.fft.irfft}
    term = simulations.Semilinear(-0.01 * k**2, steepening, **transforms)
    u = jnp.sin(2 * jnp.pi * jnp.arange(64) / 64)
    diffrax.diffeqsolve(term, integrators.ETDRK4(), 0, 0.5, 0.01, u).ys
    ```

    F is linear, a Fourier transform for instance, and the state y is in physical
    variables. What exponential integrators need; solvers with implicit stages take L
    as the stiff part, and to all others it is an ordinary vector field.

    **Arguments**

    - `symbol`: L, of the shape of $\hat y$ or one that broadcasts to it.
    - `nonlinear`: `nonlinear(t, transformed, args)`, $\hat N$.
    - `forward`, `backward`: F and its inverse.
    - `projection`: $F F^{-1}$, which leaves of $\hat y$ what belongs to a state. With
        it exponential integrators at fixed steps hand on $\hat y$ and not y, which
        saves two transforms a step; None goes by way of y.
    """

    real: Array
    imaginary: Array | None
    nonlinear: Callable[[Any, Array, Any], Array]
    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array]
    projection: Callable[[Array], Array] | None

    def __init__(
        self,
        symbol: Array,
        nonlinear: Callable[[Any, Array, Any], Array],
        *,
        forward: Callable[[Array], Array],
        backward: Callable[[Array], Array],
        projection: Callable[[Array], Array] | None = None,
    ):
        # Apart, for Diffrax warns of complex numbers, meaning the state.
        self.real = symbol.real
        self.imaginary = symbol.imag if jnp.iscomplexobj(symbol) else None
        self.nonlinear = nonlinear
        self.forward = forward
        self.backward = backward
        self.projection = projection

    @property
    def symbol(self) -> Array:
        """L."""
        if self.imaginary is None:
            return self.real
        return jax.lax.complex(self.real, self.imaginary)

    @property
    def fully_implicit(self) -> bool:
        return False

    def explicit(self, t: Any, y: Array, args: Any) -> Array:
        return self.backward(self.nonlinear(t, self.forward(y), args))

    def implicit(self, t: Any, y: Array, args: Any) -> Array:
        del t, args
        return self.backward(real_times(self.symbol, self.forward(y)))

    def solve(
        self, t: Any, rhs: Array, length: Array, guess: Array, args: Any
    ) -> Array:
        del t, guess, args
        there = 1 / (1 - length.astype(rhs.dtype) * self.symbol)
        return self.backward(real_times(there, self.forward(rhs)))

    def vf(self, t: Any, y: Array, args: Any) -> Array:
        z = self.forward(y)
        rate = real_times(self.symbol, z) + self.nonlinear(t, z, args)
        return jnp.asarray(self.backward(rate), y.dtype)

    def transformed(self) -> "Semilinear":
        """The same dynamics, of ŷ in place of y."""
        assert self.projection is not None
        return Semilinear(
            self.symbol,
            self.nonlinear,
            forward=_itself,
            # Rounding puts into ŷ what no state has, and L may make it grow.
            backward=self.projection,
        )


def _itself(z: Array) -> Array:
    return z
