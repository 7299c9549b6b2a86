"""`FisherOperator`: the Fisher information of a field, by its products with vectors."""

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from ..._jit._fresh_jit import fresh_jit, reading
from ..._linalg import matmul
from ..._progress import clear_line, progress_text, show_line
from ..._results import RESULTS
from ..._text_table import html_representation, text_representation
from ..._validation import array_of, as_floating, count, is_traced, positive, scalar
from .._posterior import Compared, Posterior, explain_derivatives
from .._report import KINDS, count_noun
from ._block_lanczos import WIDTH, leading_eigenpairs
from ._fisher_modes import FisherModes
from ._information import information_status, sigma_factor


class FisherOperator(eqx.Module):
    r"""The Fisher information of an experiment as a linear operator, without a matrix.

    $$F v = \mu'^T C^{-1} (\mu' v) + v/\sigma_\text{prior}^2$$

    by one derivative forward and one in reverse, of fields of any number of cells.

    ```python
    grid = pde.Grid((128, 128))

    def snapshot(initial):  # what is left of a field at t = 0.02
        run = pde.Evolution(pde.Diffusion(0.1), initial, grid)
        return ds.simulate(run, 0.02).states

    prior = {"[:]": ds.Free(prior=(0.0, 1.0))}
    how = {"noise": inference.Gaussian(0.5), "free": prior}
    operator = ds.fisher_operator(snapshot, jnp.zeros((1, 128, 128)), **how)
    assert isinstance(operator, inference.FisherOperator)
    operator.mv(np.ones(operator.size))  # as F @ 1, with F of 16384 × 16384
    modes = operator.modes(10, tol=1e-3)  # what is told best
    modes.model(0)  # the best of them, as a field
    ```

    It is made by `fisher_operator`.

    **Fields**

    - `posterior`: the experiment.
    - `kind`: "expected", or "observed": then `mv` is minus the second derivative of the
        log posterior times a vector (static).

    **Limits:** a covariance of the data that is dense is factorized in every product
    (convenience).
    """

    posterior: Posterior
    kind: str = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1137/140977308",)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in order."""
        return self.posterior.parameters.names

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return len(self.names)

    @property
    def prior_sd(self) -> Float[Array, " parameter"] | None:
        """Standard deviations of Gaussian priors; None unless every parameter has one.

        Other priors count as data do.
        """
        parameters = self.posterior.parameters
        return parameters.prior_sd if len(parameters.has_prior) == self.size else None

    def mv(self, vector: ArrayLike) -> Float[Array, " parameter"]:
        """F v, in the memory of a gradient; NaN where a simulation fails.

        It takes as long as a gradient and one or two runs of `predict`: by fixed steps
        four to six runs in all, with tolerances up to nine.
        """
        vector = as_floating("vector", vector)
        array_of("vector", vector, (self.size,), "a number for each of names")
        parameters = self.posterior.parameters
        vector = vector.astype(parameters.start.dtype)
        with reading(self.posterior), self._with_explained_errors():
            products, _ = information_products(self.posterior, self.kind, vector[None])
        return products[0] + vector / parameters.prior_sd / parameters.prior_sd

    def modes(
        self,
        k: int,
        *,
        tol: float = 1e-8,
        max_products: int | None = None,
        seed: int = 0,
        progress: bool | Callable[[dict[str, Any]], None] | None = None,
    ) -> FisherModes:
        r"""Eigenvectors of the k largest eigenvalues: what data tell most about.

        If every parameter has a Gaussian prior, of $S F_\text{data} S$ with S their
        standard deviations: the likelihood-informed subspace (Spantini et al. 2015). An
        eigenvalue λ is then by how many times data know a direction better than the
        prior, as variances, and those far below 1 may be left out. Otherwise of F
        itself, in physical units.

        **Arguments**

        - `k`: how many.
        - `tol`: residuals |Fv − λv| of unit vectors, over the largest eigenvalue.
            Rounding bounds it from below, at 3e-13, or 3e-6 in float32.
        - `max_products`: most products with F; by default 20 k + 200.
        - `seed`: of the random vectors that it begins with.
        - `progress`: True for a line on stderr, or a function that is given a dict of
            `products`, `converged`, `residual` and `seconds` after every block.

        **Returns:** `FisherModes`; NaN with a `status` if a simulation fails.

        **Raises:** `ValueError` where residuals stay above `tol`.
        """
        if count("k", k) > self.size:
            raise ValueError(f"k must be at most the {self.size} parameters, got {k}")
        tol = float(positive("tol", scalar("tol", tol)))
        if max_products is None:
            max_products = 20 * k + 200
        count("max_products", max_products)
        if any(map(is_traced, jax.tree.leaves(self.posterior))):
            raise ValueError(
                "modes is a loop outside of jit, grad and vmap, and the experiment is "
                "traced; call it outside, or take operator.mv inside"
            )
        parameters = self.posterior.parameters
        rounding = float(np.finfo(parameters.start.dtype).eps) ** 0.8
        status: list[RESULTS] = []
        began = time.monotonic()
        with (
            reading(self.posterior),
            self._with_explained_errors(),
            _shown(progress, began) as show,
        ):
            pairs = leading_eigenpairs(
                functools.partial(self._scaled_products, min(k, WIDTH), status),
                self.size,
                int(k),
                tol=max(tol, rounding),
                max_products=max_products,
                seed=seed,
                dtype=parameters.start.dtype,
                show=show,
            )
        vectors = pairs.vectors
        dtype, largest = vectors.dtype, np.argmax(np.abs(vectors), axis=1)[:, None]
        signs = np.sign(np.take_along_axis(vectors, largest, axis=1))
        return FisherModes(
            eigenvalues=jnp.asarray(pairs.values, dtype),
            vectors=jnp.asarray(vectors * signs),
            residuals=jnp.asarray(pairs.residuals, dtype),
            status=status[-1],
            parameters=parameters,
            prior_sd=self.prior_sd,
            products=pairs.products,
            kind=self.kind,
        )

    def _scaled_products(
        self, width: int, status: list[RESULTS], rows: np.ndarray
    ) -> np.ndarray:
        """Products of the data's F for rows, in units of the priors where all are.

        Otherwise of F with the priors that there are.
        """
        parameters, sd = self.posterior.parameters, self.prior_sd
        unit = np.asarray(1.0 if sd is None else sd, rows.dtype)
        pieces = []
        # Blocks of one width, filled by zeros: another one would be compiled anew.
        for block in np.split(rows, range(width, len(rows), width)):
            padded = np.pad(block * unit, ((0, width - len(block)), (0, 0)))
            images, outcome = information_products(
                self.posterior, self.kind, jnp.asarray(padded)
            )
            pieces.append(np.asarray(images)[: len(block)] * unit)
            status.append(outcome)
        products = np.concatenate(pieces)
        if sd is None:
            prior_sd = np.asarray(parameters.prior_sd)
            products = products + rows / prior_sd / prior_sd
        return products

    def _with_explained_errors(self) -> contextlib.AbstractContextManager[None]:
        """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
        return explain_derivatives(
            self.posterior,
            forward=f"{REVERSE_ONLY}; write its derivative as jax.custom_jvp, or take "
            "adjoint=simulations.Checkpointed() for Reversible()",
            reverse=f"{FORWARD_ONLY}; {UNROLL}, or take fisher for few parameters",
        )

    def __repr__(self) -> str:
        return text_representation(self, _report)

    def _repr_html_(self) -> str:
        return html_representation(self, _report)


@contextlib.contextmanager
def _shown(progress: Any, began: float):
    """Callback that tells `progress` about each block and ends its line."""

    def show(products: int, converged: int, residual: float):
        step = {
            "products": products,
            "converged": converged,
            "residual": residual,
            "seconds": time.monotonic() - began,
        }
        if callable(progress):
            progress(step)
        elif progress:
            show_line(
                progress_text(
                    "modes",
                    f"{products} products",
                    f"{converged} converged",
                    f"residual {residual:.1e}",
                    seconds=step["seconds"],
                )
            )

    if progress is True:
        show_line(progress_text("modes", "compiling"))
    try:
        yield show
    finally:
        if progress is True:
            clear_line()


def _report(operator: FisherOperator) -> list[str]:
    count = count_noun(operator.size, "parameter", "parameters")
    kind = KINDS.get(operator.kind, operator.kind)
    has_priors = operator.prior_sd is not None
    units = "in units of their priors" if has_priors else "in physical units"
    return [
        f"FisherOperator({count}, {kind})",
        f"products by .mv(v); .modes(k) are {units}",
    ]


@fresh_jit
def information_products(
    experiment: Posterior, kind: str, rows: Float[Array, "vector parameter"]
) -> tuple[Float[Array, "vector parameter"], RESULTS]:
    """Products of the information for rows, and how the run went.

    Gaussian priors of single entries are left out. What does not depend on the rows is
    run once for all of them.
    """
    values = experiment.parameters.start
    product = _observed_product if kind == "observed" else _expected_product
    expected = experiment.with_expected_information()
    product = functools.partial(product, expected, values)
    images, compared = jax.vmap(product, out_axes=(0, None))(rows)
    images = images / sigma_factor(experiment, compared, values) ** 2
    status = information_status(compared, images)
    # A derivative may be finite where the prediction is not: no number is right there.
    images = jnp.where(jnp.asarray(status == RESULTS.successful), images, jnp.nan)
    return images, status


def _expected_product(
    experiment: Posterior, values: Array, vector: Array
) -> tuple[Array, Compared]:
    """Derivatives of all that the posterior depends on, forward, whitened, and back."""

    def with_change(x: Array) -> tuple[Array, tuple[Array, Compared]]:
        numbers, change, compared = jax.jvp(
            experiment.numbers, (x,), (vector,), has_aux=True
        )
        return numbers, (change, compared)

    # The derivative back is that of the run that went forward, which saves another; the
    # change, an aux, is not differentiated.
    _, pull, (change, compared) = jax.vjp(with_change, values, has_aux=True)
    begin = sum(part.numbers().size for part in compared.comparisons)
    # Gaussian priors of single entries, whose information is a diagonal.
    count = len(experiment.parameters.has_prior)
    change = change.at[begin : begin + count].set(0)
    whiten = functools.partial(experiment.whiten, compared)
    white, unwhiten = jax.vjp(whiten, change)
    return pull(unwhiten(white)[0])[0], compared


def _observed_product(
    experiment: Posterior, values: Array, vector: Array
) -> tuple[Array, Compared]:
    """The derivative of the gradient of the loss."""
    count = len(experiment.parameters.has_prior)

    def loss(x: Array) -> tuple[Array, Compared]:
        compared = experiment.compared(x)
        total = sum(part.loss() for part in compared.comparisons)
        rows = compared.prior.gaussian[count:]
        total = total + matmul(rows, rows) / 2 + compared.prior.others
        return jnp.asarray(total), compared

    gradient = jax.grad(loss, has_aux=True)
    _, change, compared = jax.jvp(gradient, (values,), (vector,), has_aux=True)
    return change, compared
