"""`Dali`: a posterior beyond the ellipse, by second derivatives of the prediction."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from ..._jit._fresh_jit import fresh_jit
from ..._linalg import matmul
from ..._validation import array_of, as_floating
from .._posterior import Posterior


class Dali(eqx.Module):
    r"""The doublet of the derivative approximation for likelihoods.

    $$-2\ln\frac{L}{L_{\max}} = F_{ab}\,\delta_a\delta_b
        + D_{abc}\,\delta_a\delta_b\delta_c
        + \tfrac14 D_{abcd}\,\delta_a\delta_b\delta_c\delta_d, \qquad
        D_{abc} = \mu_{,ab}^T C^{-1} \mu_{,c}, \quad
        D_{abcd} = \mu_{,ab}^T C^{-1} \mu_{,cd}$$

    It is a proper density for any parameters, exact for predictions that are quadratic
    in them, and bends where a Fisher ellipse is straight.

    ```python
    t = jnp.linspace(0.0, 3.0, 20)
    wave = lambda m: jnp.sin(m["frequency"] * t) * m["height"]
    model, noise = {"frequency": 2.0, "height": 1.0}, inference.Gaussian(0.3)
    bent = ds.fisher(wave, model, noise=noise).dali()  # an inference.Dali
    bent.log_prob(bent.values + jnp.array([0.1, 0.0]))
    ```

    **Fields:** `values`, where it was evaluated; `rows`, (row, parameter), and
    `curvature`, (row, parameter, parameter), whitened first and second derivatives;
    `names`.
    """

    values: Float[Array, " parameter"]
    rows: Float[Array, "row parameter"]
    curvature: Float[Array, "row parameter parameter"]
    names: tuple[str, ...] = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1093/mnras/stu607",)

    def log_prob(self, values: Any) -> Float[Array, ""]:
        """ln L relative to its maximum, at parameters in the order of `names`."""
        at = as_floating("values", values)
        array_of("values", at, self.values.shape, f"in the order {self.names[:6]}")
        away = at - self.values
        bent = matmul(self.rows, away) + matmul(matmul(self.curvature, away), away) / 2
        return -matmul(bent, bent) / 2

    @property
    def third(self) -> Float[Array, "parameter parameter parameter"]:
        """$D_{abc}$, as it is: symmetric in a and b."""
        return _contracted(self.curvature, self.rows)

    @property
    def fourth(self) -> Float[Array, "parameter parameter parameter parameter"]:
        """$D_{abcd}$, as it is: symmetric in a and b, in c and d, and in the pairs."""
        return _contracted(self.curvature, self.curvature)


def _contracted(one: Array, other: Array) -> Array:
    """The sum over rows."""
    rows = one.shape[0]
    flat = matmul(one.reshape(rows, -1).T, other.reshape(rows, -1))
    return flat.reshape(*one.shape[1:], *other.shape[1:])


def dali(experiment: Posterior, values: Array, names: tuple[str, ...]) -> Dali:
    """The doublet of an experiment at `values`, of the parameters `names`."""
    if experiment.varies or not experiment.is_plain:
        raise ValueError(
            "dali is for Gaussian noise that does not depend on the model and Gaussian "
            "priors; give noise=Gaussian(...) at the fiducial model"
        )
    if experiment.scale_is_unknown:
        raise ValueError("dali needs a sigma, got noise=Gaussian() of unknown scale")
    which = [experiment.parameters.names.index(name) for name in names]
    rows, curvature = _derivatives(experiment, values)
    kept = np.array(which)
    pairs = curvature[:, kept[:, None], kept[None, :]]
    return Dali(values[kept], rows[:, kept], pairs, names)


@fresh_jit
def _derivatives(experiment: Posterior, values: Array) -> tuple[Array, Array]:
    """Whitened first and second derivatives of the numbers of an experiment."""

    def numbers(x: Array) -> Array:
        return experiment.numbers(x)[0]

    _, found = experiment.numbers(values)
    first = jax.jacfwd(numbers)(values)
    second = jax.jacfwd(jax.jacfwd(numbers))(values)
    flat = second.reshape(second.shape[0], -1)
    white = experiment.whiten_columns(found, flat)
    rows = experiment.whiten_columns(found, first)
    return rows, white.reshape(-1, values.size, values.size)
