"""A scalar of whatever a function returns, with derivatives in either mode."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._leaves import random_entries


# What is not finite is reported by its leaf; NumPy need not warn as well.
_allow_nonfinite = np.errstate(invalid="ignore", over="ignore")


#: The response of outputs is measured at the largest of these fractions of the
#: directions at which they are finite.
_PROBES = (2.0**-2, 2.0**-6, 2.0**-12, 2.0**-20)
#: Offsets in units of the response: enough for what is 0, and small beside others.
_OFFSET = 1 / 8


class Functional:
    r"""A sum of squares of outputs with offsets, and its derivatives in either mode.

    $$J = \sum_k w_k\,|f_k + o_k|^2$$

    The squares give a linear function a remainder; the offsets let them see an output
    that is 0, or rounding, at the point: its square alone has no derivative there. An
    offset is a fraction of how much its array responds to the directions, so that
    outputs that are large are weighed by themselves, whose error a solver controls.

    Outputs, tangents and cotangents are computed by JAX; squares and sums are taken on
    the host in double precision, so that only the rounding of the function remains.
    """

    def __init__(self, outputs, values: list[Array], directions, seed: int):
        def moved(values, along, h):
            steps = [jnp.asarray(h, x.real.dtype) for x in values]
            return outputs(
                [x + h * v for x, h, v in zip(values, steps, along, strict=True)]
            )

        self._outputs = jax.jit(moved)
        self._tangent = jax.jit(lambda xs, vs: jax.jvp(outputs, (xs,), (vs,))[1])
        self._cotangent = jax.jit(lambda xs, ys: jax.vjp(outputs, xs)[1](ys)[0])
        self._values = values
        # With directions and Python floats, as ever after: anything else compiles anew.
        base = self._outputs(values, directions, 0.0)
        self._base = [_double(y) for y in base]
        if not self._base or not all(np.all(np.isfinite(y)) for y in self._base):
            raise ValueError(
                "function(*inputs) must return finite float arrays at the point of test"
            )
        self.eps = max(float(jnp.finfo(x.dtype).eps) for x in [*values, *base])
        random, shifts = (np.random.default_rng(seed + n) for n in (1, 2))
        self._square, self._linear = [], []
        for y, raw, response in zip(
            self._base, base, self._responses(directions), strict=True
        ):
            shifted = y + _OFFSET * response * random_entries(shifts, y, 1.5)
            size = float(np.sum(np.abs(shifted) ** 2)) or max(1, y.size)
            weights = random.uniform(0.5, 1.5, y.shape) / size
            self._square.append(weights)
            # In the precision of the outputs, so that both modes see the same numbers.
            linear = jnp.asarray(2 * weights * np.conj(shifted), raw.dtype)
            self._linear.append(linear)

    @_allow_nonfinite
    def _responses(self, directions) -> list[float]:
        """Root mean square change of every output array by all directions at once."""
        for h in _PROBES:
            moved = map(_double, self._outputs(self._values, directions, h))
            pairs = zip(moved, self._base, strict=True)
            responses = [
                float(np.linalg.norm(y - base)) / np.sqrt(max(1, y.size)) / h
                for y, base in pairs
            ]
            if np.all(np.isfinite(responses)):
                return responses
        return [0.0] * len(self._base)

    @_allow_nonfinite
    def change(self, along, h: float) -> float:
        """J at x + h v; it is 0 at x."""
        moved = map(_double, self._outputs(self._values, along, float(h)))
        total = 0.0
        for c, w, y, base in zip(
            self._linear, self._square, moved, self._base, strict=True
        ):
            difference = y - base
            squares = w * np.real(np.conj(difference) * difference)
            total += float(np.sum(np.real(_double(c) * difference) + squares))
        return total

    @_allow_nonfinite
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


def _double(x: Array) -> np.ndarray:
    return np.asarray(x, np.complex128 if jnp.iscomplexobj(x) else np.float64)
