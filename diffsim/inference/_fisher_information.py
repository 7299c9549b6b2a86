"""`Fisher`: an information matrix with the names of its parameters."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._linalg import matmul
from .._parameter_selection import leaf_indices
from .._results import RESULTS
from .._text_table import (
    Block,
    html_representation,
    text_representation,
)
from .._types import PyTree
from .._validation import as_floating, check_not_negative, check_number, check_shape
from ._information_factor import (
    correlation,
    covariance,
    information_rows,
    scaled_cholesky_factor,
    singular_directions,
    solve_information,
    standard_deviations,
    unit_covariance,
)
from ._report import check_alone, fisher_report
from ._result_tables import fisher_dataframe, fisher_dataset


if TYPE_CHECKING:
    import pandas
    import xarray


class Degeneracy(eqx.Module):
    """A direction in which data say little.

    **Fields**

    - `inflation`: how many times less certain it is than its parameters would be if
        each were the only one unknown; inf if no datum determines it.
    - `names`, `weights`: the direction, in units of these single error bars, largest
        weight first; weights below 0.1 are left out.
    """

    inflation: float
    names: tuple[str, ...] = eqx.field(static=True)
    weights: tuple[float, ...]

    def __repr__(self) -> str:
        return text_representation(self, _direction)


class Fisher(eqx.Module):
    r"""The Fisher information of an experiment, kept as a scaled triangular root.

    $$F = S R^T R\, S, \qquad \text{covariance} = F^{-1}$$

    with the columns of $R$ of unit norm: error bars come from $R^{-1}$, never from an
    inverse of $F$, which would square the condition number.

    ```python
    years = np.arange(2000.0, 2011.0)

    def height(model):  # of a glacier, from the year 0
        return model["start"] + model["rate"] * years

    model, noise = {"start": 4000.0, "rate": -1.0}, inference.Gaussian(1.0)
    survey = ds.fisher(height, model, noise=noise)  # an inference.Fisher
    survey.degeneracies()  # start against rate
    survey.fix("rate").stderr  # of the start if the rate is known: 1/√11
    survey.stderr / (4 * survey).stderr  # 2: of four such surveys
    ```

    **Fields**

    - `root`, `scale`: R and the diagonal of S.
    - `names`: of the parameters, in order (static).
    - `score_rows`: derivative of the score by a change of the prediction, C⁻¹µ',
        (datum, parameter), for `bias`; None where it no longer belongs to the matrix.
    - `kind`: "expected" or "observed" (static).
    - `status`: `RESULTS.successful`, or why there is no information.
    - `refined`: the same with finer steps of the simulations inside `predict`, if
        `fisher(..., error_estimate=True)`; else None, and in a sum where one lacks it.
        NaN where nothing takes steps that can be finer.
    - `score`: by how much finer steps change the gradient of the log likelihood.

    `F1 + F2` is the information of two independent experiments on the same parameters,
    added by name, in the order of the first.
    A prior counted in both is counted twice. `n * F` is that of n such experiments, and
    `F + matrix` adds a matrix of information in the order of `names`, as a prior's
    C⁻¹; it must be symmetric and positive semidefinite.
    """

    #: NumPy leaves `array + F` and `number * F` to this class.
    __array_ufunc__: ClassVar[None] = None

    root: Float[Array, "parameter parameter"]
    scale: Float[Array, " parameter"]
    score_rows: Float[Array, "datum parameter"] | None
    status: RESULTS
    names: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    refined: "Fisher | None" = None
    score: Float[Array, " parameter"] | None = None

    references: ClassVar[tuple[str, ...]] = ("10.1103/PhysRevD.76.104018",)

    @property
    def matrix(self) -> Float[Array, "parameter parameter"]:
        """F itself; fine to look at, not to invert."""
        rows = self.root * self.scale
        return matmul(rows.T, rows)

    @property
    def covariance(self) -> Float[Array, "parameter parameter"]:
        """Cramér-Rao bound: F⁻¹. A parameter that data leave open has variance inf.

        Its derivative is NaN if any is open: fix those first.
        """
        return covariance(self._unit_covariance, self.scale)

    @property
    def stderr(self) -> Float[Array, " parameter"]:
        """Standard deviation of each parameter with all others free."""
        return standard_deviations(self._unit_covariance, self.scale)

    @property
    def correlation(self) -> Float[Array, "parameter parameter"]:
        """Correlation coefficients; NaN beside an undetermined parameter."""
        return correlation(self._unit_covariance)

    @property
    def _unit_covariance(self) -> Float[Array, "parameter parameter"]:
        check_alone("fisher", self.root.shape[:-2])
        return unit_covariance(self.root)

    @property
    def logdet(self) -> Float[Array, ""]:
        """ln det F; D-optimal experiments maximize it."""
        check_alone("fisher", self.root.shape[:-2])
        diagonal = jnp.abs(jnp.diagonal(self.root))
        return 2 * jnp.sum(jnp.log(diagonal) + jnp.log(self.scale))

    @property
    def condition(self) -> Float[Array, ""]:
        """Condition number of the scaled root: the one that units do not change."""
        values = jnp.linalg.svd(self.root, compute_uv=False)
        _, _, null = singular_directions(self.root)
        return jnp.where(jnp.any(null), jnp.inf, values[0] / values[-1])

    @property
    def error_estimate(self) -> Float[Array, " parameter"] | None:
        """By which fraction finer steps of the simulations change each `stderr`.

        None if it was not asked of `fisher`, NaN where no step can be finer, infinite
        where the simulation fails at finer steps.
        """
        if self.refined is None:
            return None
        own, finer = self.stderr, self.refined.stderr
        change = jnp.abs(finer - own) / jnp.minimum(finer, own)
        # Two that are infinite leave a parameter open alike.
        return self._where_finer(jnp.where(finer == own, 0, change))

    @property
    def solver_error(self) -> Float[Array, " parameter"] | None:
        """How far finer steps would move each best value, in its `stderr`.

        To first order, as `Fit.solver_error`; None, NaN and infinite as
        `error_estimate`.
        """
        if self.score is None:
            return None
        shift = jnp.abs(self._inverse_times(self.score / self.scale))
        return self._where_finer(shift / self.stderr)

    def _where_finer(self, error: Array) -> Array:
        """`error`, infinite where finer steps fail, and NaN where all do."""
        assert self.refined is not None
        fails = jnp.asarray(self.refined.status != RESULTS.successful)
        error = jnp.where(fails, jnp.inf, error)
        return jnp.where(self.status == RESULTS.successful, error, jnp.nan)

    def with_refinement(
        self, refined: "Fisher | None", score: Array | None
    ) -> "Fisher":
        """Return this information with what finer steps make of it."""
        return dataclasses.replace(self, refined=refined, score=score)

    def mv(self, vector: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        """F v, without F."""
        rows = matmul(self.root, self.scale * vector)
        return self.scale * matmul(self.root.T, rows)

    def __add__(self, other: Any) -> "Fisher":
        if isinstance(other, int | float) and other == 0:
            return self  # where `sum` begins
        if not isinstance(other, Fisher):
            if not isinstance(other, list | tuple) and np.ndim(other) == 0:
                return NotImplemented
            return self._with_matrix(other)
        only = sorted(set(self.names) ^ set(other.names))
        if only:
            raise ValueError(
                "two Fisher matrices add if they have the same names, and only one has "
                f"{only[:6]}; use fix or marginalize first"
            )
        order = np.array([other.names.index(name) for name in self.names])
        added = (other.root * other.scale)[:, order]
        stacked = [self.root * self.scale, added]
        kind = self.kind if self.kind == other.kind else "expected + observed"
        failed = self.status != RESULTS.successful
        status = RESULTS.where(jnp.asarray(failed), self.status, other.status)
        root, scale = scaled_cholesky_factor(jnp.concatenate(stacked))
        total = Fisher(root, scale, None, status, self.names, kind)
        one, two = self.score, other.score
        if self.refined is None or other.refined is None or one is None or two is None:
            return total
        return total.with_refinement(self.refined + other.refined, one + two[order])

    def __radd__(self, other: Any) -> "Fisher":
        return self + other

    def __mul__(self, factor: Any) -> "Fisher":
        if isinstance(factor, Fisher):
            raise ValueError("two Fisher matrices add, F1 + F2; they do not multiply")
        check_number("factor", factor)
        check_not_negative("factor", factor, "it counts experiments")
        rows = self.root * self.scale
        root, scale = scaled_cholesky_factor(
            rows * jnp.sqrt(jnp.asarray(factor, rows.dtype))
        )
        found = Fisher(root, scale, None, self.status, self.names, self.kind)
        if self.refined is None or self.score is None:
            return found
        return found.with_refinement(factor * self.refined, factor * self.score)

    __rmul__ = __mul__

    def _with_matrix(self, matrix: Any) -> "Fisher":
        """The sum with an information matrix in the order of `names`."""
        array = as_floating("matrix", matrix)
        hint = f"in the order of names, {self.names[:6]}"
        check_shape("matrix", array, (len(self.names),) * 2, hint)
        # Not made a triangle: one that is singular has no derivative.
        rows = information_rows(array.astype(self.root.dtype))
        scale = jnp.ones(len(self.names), rows.dtype)
        other = Fisher(rows, scale, None, RESULTS.successful, self.names, self.kind)
        # No step decides what is given.
        return self + other.with_refinement(other, jnp.zeros_like(scale))

    def fix(self, names: Any) -> "Fisher":
        """The information if the parameters `names` were known exactly.

        A name is that of a parameter, or of a leaf: all its entries. One parameter at
        least stays free.
        """
        _, keep = self._split("fix", names)
        root, scale = scaled_cholesky_factor(self.root[:, keep] * self.scale[keep])
        rows = None if self.score_rows is None else self.score_rows[:, keep]
        kept = tuple(self.names[i] for i in keep)
        found = Fisher(root, scale, rows, self.status, kept, self.kind)
        if self.refined is None or self.score is None:
            return found
        return found.with_refinement(self.refined.fix(names), self.score[keep])

    def marginalize(self, names: Any) -> "Fisher":
        """The information on the other parameters when `names` are free as well.

        The Schur complement, as rows from which what `names` explain is projected out.
        """
        drop, keep = self._split("marginalize", names)
        nuisance, wanted = self.root[:, drop], self.root[:, keep]
        span, values, _ = jnp.linalg.svd(nuisance, full_matrices=False)
        rounding = jnp.finfo(span.dtype).eps ** 0.8
        span = jnp.where(values > rounding * jnp.max(values, initial=0), span, 0)
        for _ in range(2):  # the second pass removes what rounding left of the first
            wanted = wanted - matmul(span, matmul(span.T, wanted))
        # What is left of a column of unit norm is rounding, not information.
        wanted = jnp.where(jnp.linalg.norm(wanted, axis=0) > rounding, wanted, 0)
        root, scale = scaled_cholesky_factor(wanted * self.scale[keep])
        kept = tuple(self.names[i] for i in keep)
        found = Fisher(root, scale, None, self.status, kept, self.kind)
        if self.refined is None or self.score is None:
            return found
        # What moves the values of some does so whether others are looked at or not.
        shift, _ = solve_information(self.root, self.score / self.scale)
        score = found.mv((shift / self.scale)[keep])
        return found.with_refinement(self.refined.marginalize(names), score)

    def bias(self, delta_prediction: PyTree) -> Float[Array, " parameter"]:
        r"""Shift of the best fit if predictions are wrong by `delta_prediction`.

        $$\delta\theta = F^{-1}\,\mu'^T C^{-1}\,\delta\mu$$

        with δµ = true − predicted (Cutler & Vallisneri 2007), to first order in δµ.
        NaN for what no datum determines. Compare with `stderr`.
        """
        if self.score_rows is None:
            raise ValueError(
                "bias needs the derivative of one experiment; take it from fisher(...) "
                "before adding or marginalizing"
            )
        leaves = [
            jnp.reshape(as_floating("delta_prediction", x), -1)
            for x in jax.tree.leaves(delta_prediction)
        ]
        delta = jnp.concatenate(leaves)
        if delta.shape != self.score_rows.shape[:1]:
            raise ValueError(
                f"delta_prediction must hold {len(self.score_rows)} numbers, as the "
                f"prediction does, got {delta.size}"
            )
        # A masked datum has weight 0; NaN times 0 would be NaN, also in a derivative.
        # What has no weight may be NaN: it is masked.
        weighs = jnp.any(self.score_rows != 0, axis=1)
        rows = self.score_rows / self.scale
        return self._inverse_times(matmul(rows.T, jnp.where(weighs, delta, 0)))

    def _inverse_times(self, vector: Array) -> Array:
        """F⁻¹ S v; NaN for what no datum determines."""
        found, is_open = solve_information(self.root, vector)
        return jnp.where(is_open, jnp.nan, found) / self.scale

    def degeneracies(self, above: float | int = 10.0) -> tuple[Degeneracy, ...]:
        """Directions `above` times less certain than their parameters alone."""
        values, directions, null = map(np.asarray, singular_directions(self.root))
        with np.errstate(divide="ignore"):
            inflation = np.where(null, np.inf, 1 / values)
        return tuple(
            self._degeneracy(float(factor), direction)
            for factor, direction in zip(inflation, directions, strict=True)
            if factor >= above
        )

    def _degeneracy(self, inflation: float, direction: np.ndarray) -> Degeneracy:
        largest = np.max(np.abs(direction))
        # To six digits: of equals the first, and not the one that rounding favors.
        sizes = np.round(np.abs(direction) / largest, 6)
        order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] >= 0.1]
        sign = np.sign(direction[order[0]])
        weights = tuple(float(sign * direction[i]) for i in order)
        return Degeneracy(inflation, tuple(self.names[i] for i in order), weights)

    def _split(self, act: str, names: Any) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the parameters `names`, and of the others."""
        drop = np.unique(np.array(leaf_indices(self.names, names), int))
        keep = np.setdiff1d(np.arange(len(self.names)), drop)
        if keep.size == 0:
            raise ValueError(
                f"{act} must leave one parameter at least, got all {len(self.names)}"
            )
        return drop, keep

    def to_dataframe(self) -> "pandas.DataFrame":
        """The error bars as a `pandas.DataFrame`, a row for each parameter."""
        return fisher_dataframe(self)

    def to_xarray(self) -> "xarray.Dataset":
        """Error bars, `matrix`, covariance and correlation as an `xarray.Dataset`.

        Along `parameter` and `other_parameter`, with the names as coordinates.
        """
        return fisher_dataset(self)

    def __repr__(self) -> str:
        return text_representation(self, fisher_report)

    def _repr_html_(self) -> str:
        return html_representation(self, fisher_report)


def _direction(found: Degeneracy) -> list[Block]:
    pairs = list(zip(found.weights, found.names, strict=True))
    shown = " ".join(f"{weight:+.2f} {name}" for weight, name in pairs[:6])
    return [shown + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")]
