"""`Gaussian`: normal noise, independent or correlated."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..._linalg import matmul
from ..._types import PyTree
from ..._validation import as_floating, is_traced, not_negative
from ._covariance import (
    MOST_DATA,
    AbstractCovariance,
    AbstractCovarianceFactor,
    CholeskyFactor,
    DenseCovariance,
    without_masked,
)
from ._likelihood import (
    AbstractComparison,
    AbstractLikelihood,
    DataLayout,
    as_scale,
    check_mask,
    count_used,
    where_used,
)


class Gaussian(AbstractLikelihood):
    r"""Gaussian noise: data = prediction + L · N(0, 1), with covariance C = LLᵀ.

    $$-\ln L = \tfrac12 (d - \mu)^T C^{-1} (d - \mu) + \tfrac12\ln\det C
        + \tfrac N2\ln 2\pi$$

    ```python
    t = jnp.linspace(0.0, 10.0, 50)
    data = 3 + 0.5 * t + 0.2 * jax.random.normal(jax.random.key(0), t.shape)
    data = data.at[7].set(jnp.nan)

    def line(model):
        return model["height"] + model["slope"] * t

    def noise(model):  # how large it is, the data tell
        return inference.Gaussian(model["sigma"], mask=~jnp.isnan(data))

    start = {"height": 0.0, "slope": 0.0, "sigma": 1.0}
    ds.fit(line, start, data, noise=noise)

    apart = jnp.abs(t[:, None] - t[None, :])
    drifts = 0.04 * jnp.eye(50) + 0.01 * jnp.exp(-apart)  # correlated for a while
    correlated = inference.Gaussian(covariance=drifts, mask=~jnp.isnan(data))
    ds.fit(line, {"height": 0.0, "slope": 0.0}, data, noise=correlated)
    ```

    **Arguments**

    - `sigma`: the standard deviation in the units of the data: a number for all data,
        or a pytree like the data whose leaves are numbers or arrays that broadcast to
        the data's. Error bars then follow from it without rescaling. None, and no
        covariance: the same unknown standard deviation for all data, judged from the
        residuals, $s = \sqrt{RSS/(N - n)}$, and error bars scale with it; this is what
        NIST, SciPy's `curve_fit` and lmfit do by default.
    - `covariance`: instead of sigma, C: a matrix (datum, datum) in the order in which
        the data are flattened, a `BandedCovariance`, a `ToeplitzCovariance` or a
        `GaussianProcess`.
    - `cholesky`: instead of sigma, the lower triangle L.
    - `jitter`: further noise of unknown origin, added to sigma in quadrature; a number
        or what broadcasts to the data, as `model["jitter"][instrument]`.
    - `offset`: is added to the prediction, as `model["offset"][instrument]`.
    - `relative`: whether sigma or covariance are known up to a common factor only,
        which is then judged from the residuals, as weights are in lmfit and in SciPy
        with `absolute_sigma=False`.
    - `mask`: True where there is a datum, False where it is missing; a pytree like the
        data, of booleans. What lies under False in data, sigma and covariance, NaN in
        data and sigma included, is never used. (It is `numpy.ma`'s mask inverted.)

    `fit` and `fisher` also take a function from the model to a likelihood,
    `noise=lambda model: Gaussian(model.jitter)`: then numbers in the noise are
    parameters like any other, and ½ ln det C enters objective and Fisher matrix.

    **Raises:** `ValueError` for a sigma that is not positive, or infinite: what is not
    measured is masked; and for a matrix that is not a covariance.

    **Limits:** the expected information of a covariance that depends on the model needs
    N(N + 1)/2 rows; beyond 4096 data use kind="observed" (convenience). A prediction
    may be NaN under the mask where its derivative is taken forward, as
    Levenberg-Marquardt does; reverse mode makes NaN of zero times NaN inside `predict`
    (mathematics).
    """

    sigma: PyTree[Any]
    covariance: AbstractCovariance | None
    jitter: PyTree[Any]
    offset: PyTree[Any]
    mask: PyTree[Any]
    relative: bool = eqx.field(static=True)

    def __init__(
        self,
        sigma: PyTree[Any] = None,
        *,
        covariance: Any = None,
        cholesky: Any = None,
        jitter: PyTree[Any] = None,
        offset: PyTree[Any] = None,
        relative: bool = False,
        mask: PyTree[Any] = None,
    ):
        check_mask(mask)
        _check_one({"sigma": sigma, "covariance": covariance, "cholesky": cholesky})
        if mask is None:
            _check_no_covariance(sigma)
        self.sigma = as_scale("sigma", sigma, mask)
        self.mask = mask
        self.covariance = _covariance(covariance, cholesky, mask)
        self.relative = relative
        self.jitter, self.offset = (
            jax.tree.map(lambda leaf, name=name: as_floating(name, leaf), given)
            for name, given in (("jitter", jitter), ("offset", offset))
        )
        for leaf in jax.tree.leaves(self.jitter):
            not_negative("jitter", leaf, "it is a standard deviation")
        if jitter is not None and sigma is None:
            raise ValueError(
                "jitter is added to sigma in quadrature, and there is none; give "
                "Gaussian(jitter) as sigma, or add jitter² to the diagonal of C"
            )
        if relative and sigma is None and self.covariance is None:
            raise ValueError(
                "relative=True needs sigma or covariance, which are known up to a "
                "factor; Gaussian() is one unknown sigma for all data"
            )

    @property
    def scale_is_unknown(self):
        """Whether there is no sigma, or a relative one."""
        return self.relative or (self.sigma is None and self.covariance is None)

    def has_information(self, size, varies):
        """Whether there is room for that of a covariance that varies."""
        return not varies or self.covariance is None or size <= MOST_DATA

    @property
    def convention(self):
        """Clause on the source of error bars."""
        if self.relative:
            return (
                "sigma known up to a factor: scaled by sqrt(chi2/dof), and error bars "
                "with it, as in lmfit"
            )
        if self.scale_is_unknown:
            return (
                "sigma unknown: taken as sqrt(RSS/dof), and error bars scale with it, "
                "as in NIST, SciPy and lmfit"
            )
        what = "sigma" if self.covariance is None else "covariance"
        return f"{what} given: error bars follow from it and are not rescaled by chi2"

    def compare(self, prediction, data, layout, varies=False):
        """Residuals whitened by the factor of the covariance."""
        used = self.used(layout)
        if self.offset is not None:
            offset = layout.broadcast("offset", self.offset)
            prediction = prediction + offset.astype(prediction.dtype)
        # Masked data are replaced first: the derivative of a choice made afterwards
        # would be zero times NaN.
        prediction = where_used(used, prediction, 0)
        given = prediction if data is None else data.astype(prediction.dtype)
        difference = prediction - where_used(used, given, 0)
        factor = self._factor(layout, used, prediction.dtype)
        z = factor.whiten(difference)
        return GaussianComparison(
            prediction=prediction, z=z, factor=factor, used=used, varies=varies
        )

    def draw(self, key, prediction, layout):
        """The prediction, its offset and correlated normal numbers."""
        dtype = prediction.dtype
        if self.offset is not None:
            offset = layout.broadcast("offset", self.offset)
            prediction = prediction + offset.astype(dtype)
        factor = self._factor(layout, None, dtype)
        return prediction + factor.correlate(
            jax.random.normal(key, prediction.shape, dtype)
        )

    def _factor(self, layout: DataLayout, used: Any, dtype: Any):
        if self.covariance is not None:
            return self.covariance.factor(used, layout.size, dtype)
        sigma = jnp.ones(layout.size, dtype)
        if self.sigma is not None:
            _object_to_covariance(self.sigma, layout)
            sigma = layout.broadcast("sigma", self.sigma).astype(dtype)
        sigma = where_used(used, sigma, 1)
        if self.jitter is not None:
            jitter = layout.broadcast("jitter", self.jitter).astype(dtype)
            sigma = where_used(used, _hypotenuse(sigma, jitter), 1)
        return StandardDeviations(sigma, used)


class StandardDeviations(AbstractCovarianceFactor):
    """The factor of independent data; the numbers are ln σ.

    Rows of ln σ are in units of the information 2, or of what steps are safe with: far
    from the optimum that is none to step by. With a σ that is f times too small the
    gradient in ln σ is 1 − f² a datum and the step f²/2, e-folds beyond the optimum.
    The mean of the expected and the observed curvature, 1 + z², makes the step tanh of
    what there is to go, from either side.
    """

    sigma: Float[Array, " datum"]
    used: Bool[Array, " datum"] | None

    def whiten(self, vector):
        """v/σ."""
        return vector / self.sigma

    def correlate(self, vector):
        """σ v."""
        return vector * self.sigma

    def standard_deviations(self):
        """σ."""
        return self.sigma

    def half_log_det(self):
        """Σ ln σ."""
        return jnp.sum(self.numbers())

    def numbers(self):
        """ln σ."""
        return jnp.log(self.sigma)

    def whiten_numbers(self, tangent, z, expected):
        """The change of ln σ times the root of its information."""
        return tangent * self._weight(z, expected)

    def number_rows(self, z, expected):
        """(1 − z²) over that root."""
        score = (1 - z**2) / self._weight(z, expected)
        return score if self.used is None else jnp.where(self.used, score, 0)

    def _weight(self, z: Array, expected: Any) -> Array:
        return jnp.sqrt(jnp.where(expected, 2.0, 1 + z**2))


class GaussianComparison(AbstractComparison):
    """Whitened residuals z = L⁻¹(prediction − data), and L."""

    prediction: Float[Array, " datum"]
    z: Float[Array, " datum"]
    factor: AbstractCovarianceFactor
    used: Bool[Array, " datum"] | None
    varies: bool = eqx.field(static=True)

    def numbers(self):
        """The prediction, and what a covariance that varies is made of."""
        if not self.varies:
            return self.prediction
        return jnp.concatenate([self.prediction, self.factor.numbers()])

    def loss(self):
        """½ χ², and ½ ln det C if it varies."""
        half = matmul(self.z, self.z) / 2
        return half + self.factor.half_log_det() if self.varies else half

    def losses(self):
        """½z² and ln σ of independent data."""
        if not isinstance(self.factor, StandardDeviations):
            return AbstractComparison.losses(self)
        half = self.z**2 / 2
        return half + self.factor.numbers() if self.varies else half

    def log_prob(self):
        """With all constants."""
        constant = self.factor.half_log_det() + self.size() * (0.5 * np.log(2 * np.pi))
        return -matmul(self.z, self.z) / 2 - constant

    def rows(self, expected):
        """z, and the rows of the covariance."""
        if not self.varies:
            return self.z
        return jnp.concatenate([self.z, self.factor.number_rows(self.z, expected)])

    def whiten(self, tangent, expected):
        """L⁻¹ dμ, and the same of the covariance."""
        n = self.prediction.size
        white = self.factor.whiten(tangent[:n])
        if not self.varies:
            return white
        others = self.factor.whiten_numbers(tangent[n:], self.z, expected)
        return jnp.concatenate([white, others])

    def moments(self):
        """The prediction with its offset, and the root of the diagonal of C."""
        return self.prediction, self.factor.standard_deviations()

    def size(self):
        """Number of data that are used."""
        return count_used(self.used, self.z.size)

    def residuals(self):
        """z; of correlated data it is no residual of one datum but one of N numbers."""
        return self.z


def _hypotenuse(sigma: Array, jitter: Array) -> Array:
    """√(σ² + j²), in units of the larger, whose square may be beyond a float."""
    # Any unit gives the same root, so that the derivative needs none of it.
    unit = jax.lax.stop_gradient(jnp.maximum(sigma, jnp.abs(jitter)))
    return unit * jnp.sqrt((sigma / unit) ** 2 + (jitter / unit) ** 2)


def _check_one(given: dict[str, Any]):
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(
            f"{names[0]} and {names[1]} both say how the data scatter; give one"
        )


def _covariance(
    covariance: Any, cholesky: Any, mask: PyTree[Any]
) -> AbstractCovariance | None:
    if cholesky is not None:
        return CholeskyFactor(cholesky)
    if covariance is None or isinstance(covariance, AbstractCovariance):
        return covariance
    matrix = as_floating("covariance", covariance)
    used = [jnp.ravel(leaf) for leaf in jax.tree.leaves(mask)]
    if used and matrix.shape == 2 * (sum(leaf.size for leaf in used),):
        # A masked datum may have an unknown covariance.
        matrix = without_masked(matrix, jnp.concatenate(used))
    return DenseCovariance(matrix)


def _check_no_covariance(sigma: PyTree[Any]):
    """Refuse a matrix that can only be meant as a covariance."""
    shape = np.shape(sigma) if eqx.is_array_like(sigma) else ()
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2 or is_traced(sigma):
        return
    matrix: Any = np.asarray(sigma)
    diagonal = np.diagonal(matrix)
    others = matrix[~np.eye(len(matrix), dtype=bool)]
    symmetric = np.array_equal(matrix, matrix.T)
    # A table of standard deviations has no zero, and is no positive definite matrix
    # with a diagonal of its own by chance.
    if symmetric and np.all(diagonal > 0) and np.any(others <= 0):
        raise _covariance_error(shape)


def _object_to_covariance(sigma: PyTree[Any], layout: DataLayout):
    """Refuse a square matrix with a row a datum, of one leaf or of all data."""
    sizes = {layout.size, *(int(np.prod(shape, dtype=int)) for shape in layout.shapes)}
    for leaf, own in zip(jax.tree.leaves(sigma), layout.shapes, strict=False):
        shape = np.shape(leaf)
        square = len(shape) == 2 and shape[0] == shape[1] > 1
        if square and shape[0] in sizes and shape != own:
            raise _covariance_error(shape)


def _covariance_error(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"sigma of shape {shape} looks like a covariance matrix C; sigma are standard "
        "deviations, one a datum; give the matrix as Gaussian(covariance=C)"
    )
