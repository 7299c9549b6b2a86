"""`StudentT`: noise with outliers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, polygamma
from jaxtyping import Array

from ..._types import PyTree
from ._independent import AbstractIndependentLikelihood
from ._likelihood import as_scale, check_mask, where_used


class StudentT(AbstractIndependentLikelihood):
    r"""Student's t noise: Gaussian in its core, with tails that outliers fit into.

    $$p(d) = \frac{\Gamma(\frac{\nu+1}2)}{\Gamma(\frac\nu2)\sqrt{\nu\pi}\,\sigma}
        \left(1 + \frac{\rho^2}\nu\right)^{-(\nu+1)/2},
        \qquad \rho = \frac{d - \mu}\sigma$$

    A datum far away pulls with a force that falls as 1/ρ, where a Gaussian one pulls
    with ρ. Error bars are those of the expected information, (ν + 1)/((ν + 3)σ²) for
    each datum.

    ```python
    t = jnp.linspace(0.0, 10.0, 50)
    data = 3 + 0.5 * t + 0.2 * jax.random.normal(jax.random.key(0), t.shape)
    data = data.at[jnp.array([5, 30])].add(8.0)  # two readings went wrong

    def line(model):
        return model["height"] + model["slope"] * t

    noise = inference.StudentT(0.2, dof=3.0)
    ds.fit(line, {"height": 0.0, "slope": 0.0}, data, noise=noise)
    ```

    **Arguments**

    - `sigma`: the scale in the units of the data, as in `Gaussian`; the standard
        deviation is $\sigma\sqrt{\nu/(\nu-2)}$, infinite for ν ≤ 2.
    - `dof`: degrees of freedom ν, a number or what broadcasts to the data.
    - `mask`: as in `Gaussian`.

    **Good values:** ν = 3 to 5. As a parameter, `noise=lambda m: StudentT(m["sigma"],
    dof=m["dof"])`, with a prior on ν, of which few data say little.

    **Limits:** the loss may have several minima where many data are far away; start
    near, or from a Gaussian fit (mathematics).

    **References:** Lange, Little & Taylor 1989, doi 10.1080/01621459.1989.10478852.
    """

    sigma: PyTree[Any]
    dof: PyTree[Any]
    mask: PyTree[Any]

    def __init__(
        self, sigma: PyTree[Any], *, dof: PyTree[Any], mask: PyTree[Any] = None
    ):
        check_mask(mask)
        self.sigma = as_scale("sigma", sigma, mask)
        self.dof = as_scale("dof", dof, mask, "it is a number of degrees of freedom")
        self.mask = mask

    @property
    def judges_misfit(self):
        """No: squares of residuals have no expectation by which to judge."""
        return False

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return "by the expected information of Student's t, not rescaled"

    def numbers(self, prediction, layout, used):
        """µ, ln σ and ν."""
        sigma, dof = (
            where_used(used, layout.broadcast(name, given), 1).astype(prediction.dtype)
            for name, given in (("sigma", self.sigma), ("dof", self.dof))
        )
        return prediction, jnp.log(sigma), dof

    def kernel(self, data, numbers):
        """½(ν + 1) ln(1 + ρ²/ν)."""
        rho, dof = self.residual(data, numbers), numbers[2]
        return (dof + 1) / 2 * jnp.log1p(rho**2 / dof)

    def normalization(self, data, numbers):
        """ln σ and the Γ functions."""
        del data
        _, log_sigma, dof = numbers
        return log_sigma + _log_constant(dof)

    def scores(self, data, numbers, varies):
        """Of µ, ln σ and ν."""
        rho, dof = self.residual(data, numbers), numbers[2]
        pull = (dof + 1) * rho / (dof + rho**2)
        location = pull * jnp.sqrt((dof + 3) / (dof + 1))
        if not varies:
            return (location,)
        of_sigma = 1 - pull * rho
        _, of_dof = jax.jvp(
            lambda nu: (nu + 1) / 2 * jnp.log1p(rho**2 / nu) + _log_constant(nu),
            (dof,),
            (jnp.ones_like(dof),),
        )
        first, cross, second = _root(dof)
        one = of_sigma / first
        return location, one, _over(of_dof - cross * one, second)

    def whitened(self, tangents, numbers):
        """By the Cholesky factor of the information in µ, ln σ and ν."""
        _, log_sigma, dof = numbers
        sigma = jnp.exp(log_sigma)
        location = tangents[0] / sigma * jnp.sqrt((dof + 1) / (dof + 3))
        if len(tangents) == 1:
            return (location,)
        first, cross, second = _root(dof)
        _, of_sigma, of_dof = tangents
        return location, first * of_sigma + cross * of_dof, second * of_dof

    def residual(self, data, numbers):
        """ρ."""
        prediction, log_sigma, _ = numbers
        return (prediction - data) / jnp.exp(log_sigma)

    def moments(self, numbers):
        """µ and the scale σ."""
        prediction, log_sigma, _ = numbers
        return prediction, jnp.exp(log_sigma)

    def draw(self, key, prediction, layout):
        """The prediction and σ times a variate of t."""
        _, log_sigma, dof = self.numbers(prediction, layout, None)
        variate = jax.random.t(key, dof, prediction.shape, prediction.dtype)
        return prediction + jnp.exp(log_sigma) * variate


#: ν from which a series has more digits of the normalization than gamma functions.
_MANY = 200.0


def _log_constant(dof: Array) -> Array:
    gammas = gammaln(dof / 2) - gammaln((dof + 1) / 2)
    # At large ν the difference is lost in rounding; its series is exact to 1e-13.
    series = np.log(2 * np.pi) / 2 + 1 / (4 * dof) - 1 / (24 * dof**3)
    exact = gammas + jnp.log(dof * np.pi) / 2
    return jnp.where(dof > _MANY, series, exact)


def _root(dof: Array) -> tuple[Array, Array, Array]:
    """The Cholesky factor [[a, b], [0, c]] of the information in ln σ and ν."""
    a = jnp.sqrt(2 * dof / (dof + 3))
    b = -2 / ((dof + 1) * (dof + 3)) / a
    of_dof = (polygamma(1, dof / 2) - polygamma(1, (dof + 1) / 2)) / 4
    of_dof = of_dof - (dof + 5) / (2 * dof * (dof + 1) * (dof + 3))
    rest = of_dof - b**2
    # Rounding leaves nothing of it for ν of a million, where t is a Gaussian.
    return a, b, jnp.where(rest > 0, jnp.sqrt(jnp.where(rest > 0, rest, 1)), 0)


def _over(x: Array, root: Array) -> Array:
    return jnp.where(root > 0, x / jnp.where(root > 0, root, 1), 0)
