"""`FisherModes`: the directions of a field that data tell most about."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..._linalg import matmul
from ..._results import RESULTS
from ..._text_table import (
    MOST_ROWS,
    Block,
    Table,
    html_representation,
    text_representation,
)
from ..._types import PyTree
from ..._validation import array_of, as_floating
from .._parameters import Parameters
from .._report import KINDS, check_alone, count_noun


class FisherModes(eqx.Module):
    r"""Leading eigenpairs of a Fisher information, and the error bars they leave.

    With a Gaussian prior on every parameter the eigenvalues λ are those of
    $S F_\text{data} S$, S the standard deviations of the priors, and with the
    eigenvectors v as rows of V

    $$\text{covariance} \approx S\,\bigl(1 - V^T\tfrac{\lambda}{1+\lambda}V\bigr)\,S,$$

    the best approximation of its rank, exact in what the modes span. Otherwise they are
    those of F, in physical units.

    ```python
    x = np.linspace(0, 1, 200)
    kernel = np.exp(-0.5 * ((x[:, None] - x) / 0.1) ** 2)
    factor = jnp.asarray(np.linalg.cholesky(kernel + 1e-6 * np.eye(200)))

    def curve(white):  # smooth over 0.1; white noise is what is free
        return factor @ white

    def readings(white):
        return curve(white)[::20]

    how = {"noise": inference.Gaussian(0.1), "free": {"[:]": ds.Free(prior=(0.0, 1.0))}}
    modes = ds.fisher_operator(readings, jnp.zeros(200), **how).modes(10)
    assert isinstance(modes, inference.FisherModes)
    modes.eigenvalues  # all ten are determined by data, ≫ 1
    modes.stderr  # of the noise; the band of the curve by what modes leave of it:
    share = modes.eigenvalues / (1 + modes.eigenvalues)
    seen = jax.vmap(curve)(modes.vectors)
    band = jnp.sqrt(jnp.diagonal(kernel) - share @ seen**2)  # 0.1 where it was read
    ```

    **Fields**

    - `eigenvalues`: largest first.
    - `vectors`: of unit length, (mode, parameter), the largest entry positive; in units
        of the standard deviations of the priors where all parameters have one.
    - `residuals`: |Fv − λv|, as products gave it.
    - `products`: how many were needed (static).
    - `parameters`: what the vectors are of, for `model`.
    - `prior_sd`: standard deviations of Gaussian priors; None unless all have one.
    - `kind`: "expected" or "observed" (static).
    - `status`: `RESULTS.successful`, or why there are no modes.

    **Good values:** modes down to λ = 0.1: each one that is left out would lower the
    variance of no parameter by more than λ/(1+λ) of its prior's.
    """

    eigenvalues: Float[Array, " mode"]
    vectors: Float[Array, "mode parameter"]
    residuals: Float[Array, " mode"]
    status: RESULTS
    parameters: Parameters
    prior_sd: Float[Array, " parameter"] | None
    products: int = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1137/140977308",)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in order."""
        return self.parameters.names

    @property
    def stderr(self) -> Float[Array, " parameter"]:
        """Standard deviation of each parameter, with its prior.

        Not below the exact one of the expected information: what further modes tell is
        left out. NaN where an observed information is not positive definite.
        """
        if self.prior_sd is None:
            raise ValueError(
                "stderr needs a prior on every parameter, Free(prior=(mean, sd)): "
                "without one the modes leave all other directions open, and with them "
                "every parameter; mode_stderr has the error bars of the modes"
            )
        squares = self.vectors**2
        # In this order a variance far below the prior's is no difference of two.
        inside = matmul(self.mode_stderr**2, squares)
        outside = jnp.maximum(1 - jnp.sum(squares, axis=0), 0)
        if squares.shape[0] == squares.shape[1]:
            outside = 0.0  # and not the rounding of a sum that is 1
        return self.prior_sd * jnp.sqrt(inside + outside)

    @property
    def mode_stderr(self) -> Float[Array, " mode"]:
        """Standard deviation of the coefficient of each of `vectors`.

        $1/\\sqrt{1+\\lambda}$ with priors, $1/\\sqrt\\lambda$ without; inf for what no
        datum determines.
        """
        information = self.eigenvalues + (0.0 if self.prior_sd is None else 1.0)
        usable = jnp.where(information < 0, jnp.nan, information)
        return 1 / jnp.sqrt(usable)

    def model(self, i: int) -> PyTree:
        """Mode `i` in physical units, in the place of the free numbers of the model."""
        unit = 1.0 if self.prior_sd is None else self.prior_sd
        return self.as_model(unit * self.vectors[i])

    def as_model(self, vector: ArrayLike) -> PyTree:
        """A pytree like the model with `vector`, as `stderr`, for its free numbers.

        All else is that of the model.
        """
        vector = as_floating("vector", vector)
        array_of("vector", vector, (len(self.names),), "a number for each of names")
        return self.parameters.model(vector)

    def __repr__(self) -> str:
        return text_representation(self, _report)

    def _repr_html_(self) -> str:
        return html_representation(self, _report)


def _report(modes: FisherModes) -> list[Block]:
    check_alone("modes", modes.eigenvalues.shape[:-1])
    count = len(modes.eigenvalues)
    headline = (
        f"FisherModes({count} of {count_noun(len(modes.names), 'mode', 'modes')}, "
        f"{KINDS.get(modes.kind, modes.kind)})"
    )
    if modes.status != RESULTS.successful:
        return [headline, RESULTS[modes.status]]
    values, stderr = np.asarray(modes.eigenvalues), np.asarray(modes.mode_stderr)
    rows = [
        (str(i), f"{values[i]:.6g}", f"{stderr[i]:.3g}")
        for i in range(min(count, MOST_ROWS))
    ]
    header = ("mode", "eigenvalue", "stderr")
    table = Table(header, rows, ">", "  ", max(0, count - MOST_ROWS))
    return [headline, table, *_gains(modes, values)]


def _gains(modes: FisherModes, values: np.ndarray) -> list[str]:
    """How many modes data tell more of than the prior does."""
    if modes.prior_sd is None:
        return []
    told = int(np.sum(values > 1))
    words = count_noun(told, "mode", "modes")
    more = " or more: take a larger k" if told == len(values) else ""
    return [f"eigenvalues in units of the prior; {words} above 1{more}"]
