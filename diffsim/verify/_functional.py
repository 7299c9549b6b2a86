"""A scalar of whatever a function returns, with derivatives in either mode."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


# What is not finite is reported by its leaf; NumPy need not warn as well.
_quiet = np.errstate(invalid="ignore", over="ignore")


#: The response of outputs is measured at the largest of these fractions of the
#: directions at which they are finite.
_PROBES = (2.0**-2, 2.0**-6, 2.0**-12, 2.0**-20)


class Functional:
    r"""A functional of the change of outputs, and its derivatives in either mode.

    $$J = \sum_k \mathrm{Re}\,(c_k d_k) + w_k |d_k|^2, \qquad
        d = \frac{f(x + hv) - f(x)}{s}$$

    The first sum sees every output, one that is 0 at x as well, whose square has no
    derivative there; the second gives a linear function a remainder. The scale s of an
    array is its magnitude, and its response to the directions, so that one that is 0 or
    rounding at x counts as much as others.

    Outputs, tangents and cotangents are computed by JAX; squares and sums are taken on
    the host in double precision, so that only the rounding of the function remains.
    """

    def __init__(self, outputs, values: list[Array], directions, seed: int):
        self._outputs = jax.jit(
            lambda values, along, h: outputs(_moved(values, along, h))
        )
        self._tangent = jax.jit(lambda xs, vs: jax.jvp(outputs, (xs,), (vs,))[1])
        self._cotangent = jax.jit(lambda xs, ys: jax.vjp(outputs, xs)[1](ys)[0])
        self._values = values
        base = self._outputs(values, values, 0.0)
        self._base = [_double(y) for y in base]
        if not self._base or not all(np.all(np.isfinite(y)) for y in self._base):
            raise ValueError(
                "function(*inputs) must return finite float arrays at the point of test"
            )
        self.eps = max(float(jnp.finfo(x.dtype).eps) for x in [*values, *base])
        random = np.random.default_rng(seed + 1)
        scales = self._scales(directions)
        pairs = list(zip(base, scales, strict=True))
        # In the precision of the outputs, so that both modes see the same numbers.
        self._linear = [jnp.asarray(_linear(y, random) / s, y.dtype) for y, s in pairs]
        self._square = [random.uniform(0.5, 1.5, y.shape) / s**2 for y, s in pairs]

    @_quiet
    def _scales(self, directions) -> list[float]:
        """Of every output array, its norm and that of its response; never 0."""
        sizes = [float(np.linalg.norm(y)) for y in self._base]
        for h in _PROBES:
            moved = map(_double, self._outputs(self._values, directions, h))
            pairs = zip(moved, self._base, strict=True)
            response = [float(np.linalg.norm(y - base)) / h for y, base in pairs]
            if np.all(np.isfinite(response)):
                sizes = [a + b for a, b in zip(sizes, response, strict=True)]
                break
        return [
            size or max(1.0, float(np.sqrt(y.size)))
            for size, y in zip(sizes, self._base, strict=True)
        ]

    @_quiet
    def change(self, along, h: float) -> float:
        """J at x + h v; it is 0 at x."""
        moved = map(_double, self._outputs(self._values, along, h))
        total = 0.0
        for c, w, y, base in zip(
            self._linear, self._square, moved, self._base, strict=True
        ):
            difference = y - base
            squares = w * np.real(np.conj(difference) * difference)
            total += float(np.sum(np.real(_double(c) * difference) + squares))
        return total

    @_quiet
    def derivative(self, along) -> float:
        """J'(x) v in forward mode."""
        tangents = map(_double, self._tangent(self._values, along))
        return sum(
            float(np.sum(np.real(_double(c) * dy)))
            for c, dy in zip(self._linear, tangents, strict=True)
        )

    def gradient(self) -> list[np.ndarray]:
        """J'(x) in reverse mode, in JAX's convention: Re(sum(gradient * v))."""
        return [_double(g) for g in self._cotangent(self._values, self._linear)]


def _moved(values, along, h):
    return [
        x + jnp.asarray(h, x.real.dtype) * v for x, v in zip(values, along, strict=True)
    ]


def _double(x: Array) -> np.ndarray:
    return np.asarray(x, np.complex128 if jnp.iscomplexobj(x) else np.float64)


def _linear(y: Array, random: np.random.Generator) -> np.ndarray:
    """Random weights of either sign, or of any phase."""
    weights = random.uniform(0.5, 1.5, y.shape) * random.choice([-1.0, 1.0], y.shape)
    if jnp.iscomplexobj(y):
        weights = weights * np.exp(2j * np.pi * random.uniform(size=y.shape))
    return np.asarray(weights)
