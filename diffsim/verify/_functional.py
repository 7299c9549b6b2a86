"""A scalar of whatever a function returns, with derivatives in either mode."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


# What is not finite is reported by its leaf; NumPy need not warn as well.
_quiet = np.errstate(invalid="ignore", over="ignore")


class Functional:
    """A weighted sum of squares of outputs, and its derivatives in either mode.

    Outputs, tangents and cotangents are computed by JAX; squares and sums are taken on
    the host in double precision, so that only the rounding of the function remains.
    """

    def __init__(self, outputs, values: list[Array], seed: int):
        self._outputs = jax.jit(
            lambda values, along, h: outputs(_moved(values, along, h))
        )
        self._tangent = jax.jit(lambda xs, vs: jax.jvp(outputs, (xs,), (vs,))[1])
        self._cotangent = jax.jit(lambda xs, ys: jax.vjp(outputs, xs)[1](ys)[0])
        self._values = values
        base = self._outputs(values, values, 0.0)
        self._dtypes = [y.dtype for y in base]
        self._base = [_double(y) for y in base]
        if not self._base or not all(np.all(np.isfinite(y)) for y in self._base):
            raise ValueError(
                "function(*inputs) must return finite float arrays at the point of test"
            )
        self.eps = max(float(jnp.finfo(x.dtype).eps) for x in [*values, *base])
        random = np.random.default_rng(seed + 1)
        self._weights = [_weights(y, random) for y in self._base]

    @_quiet
    def change(self, along, h: float) -> float:
        """J(x + h v) - J(x), as a product of differences, which cancels less."""
        moved = map(_double, self._outputs(self._values, along, h))
        return sum(
            float(np.sum(w * np.real(np.conj(y - base) * (y + base))))
            for w, y, base in zip(self._weights, moved, self._base, strict=True)
        )

    @_quiet
    def derivative(self, along) -> float:
        """J'(x) v in forward mode."""
        tangents = map(_double, self._tangent(self._values, along))
        return sum(
            float(np.sum(2 * w * np.real(np.conj(y) * dy)))
            for w, y, dy in zip(self._weights, self._base, tangents, strict=True)
        )

    def gradient(self) -> list[np.ndarray]:
        """J'(x) in reverse mode, in JAX's convention: Re(sum(gradient * v))."""
        cotangents = [
            jnp.asarray(2 * w * np.conj(y), dtype)
            for w, y, dtype in zip(self._weights, self._base, self._dtypes, strict=True)
        ]
        return [_double(g) for g in self._cotangent(self._values, cotangents)]


def _moved(values, along, h):
    return [
        x + jnp.asarray(h, x.real.dtype) * v for x, v in zip(values, along, strict=True)
    ]


def _double(x: Array) -> np.ndarray:
    return np.asarray(x, np.complex128 if jnp.iscomplexobj(x) else np.float64)


def _weights(y: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Random, and such that every output array counts the same."""
    total = float(np.sum(np.abs(y) ** 2))
    return np.asarray(random.uniform(0.5, 1.5, y.shape) / (total or max(1, y.size)))
