"""`Fisher`: an information matrix with the names of its parameters."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._extras import optional_module, pictures
from ..._linalg import matmul
from ..._parameter_selection import one_name
from ..._results import RESULTS
from ..._text_table import Block, html_representation, text_representation
from ..._types import PyTree
from ..._validation import array_of, as_floating
from .._information_factor import (
    correlation,
    covariance,
    information_rows,
    scaled_cholesky_factor,
    singular_directions,
    solve_information,
    standard_deviations,
    unit_covariance,
)
from .._posterior import recall
from .._report import check_alone, fisher_report
from .._result_tables import fisher_dataframe, fisher_dataset
from ._dali import Dali, dali
from ._fisher_algebra import (
    added,
    fixed,
    given_information,
    joined,
    marginalized,
    multiplied,
    reparametrized,
)


if TYPE_CHECKING:
    import numpy.typing as npt
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

    @property
    def words(self) -> str:
        """The direction as a sentence."""
        if len(self.names) == 1:
            return f"the data do not determine {self.names[0]}"
        up = [n for n, w in zip(self.names, self.weights, strict=True) if w > 0]
        down = [n for n, w in zip(self.names, self.weights, strict=True) if w < 0]
        change = f"{' and '.join(up)} rising"
        change += f" while {' and '.join(down)} fall" if down else " together"
        if np.isinf(self.inflation):
            return f"the data do not see {change}"
        return (
            f"the data hardly see {change}: known {self.inflation:.3g} times "
            "worse than any of them alone"
        )

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
    - `values`: the parameters at which it was evaluated, if that is known.
    - `sampling_error`: by which fraction an information that was sampled leaves each
        error bar uncertain, infinite where the mean score is not 0, as of rare events
        that no sample had; None for one by a formula.

    `F1 + F2` is the information of two independent experiments on the same parameters,
    added by name, in the order of the first, and `F1 | F2` that on the parameters of
    both. A prior counted in both is counted twice. `n * F` is that of n such
    experiments, and `F + matrix` adds a matrix of information in the order of `names`,
    as a prior's C⁻¹; it must be symmetric and positive semidefinite.
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
    values: Float[Array, " parameter"] | None = None
    sampling_error: Float[Array, " parameter"] | None = None

    references: ClassVar[tuple[str, ...]] = ("10.1103/PhysRevD.76.104018",)

    @classmethod
    def from_matrix(
        cls, matrix: Any, names: Sequence[str], *, values: Any = None
    ) -> "Fisher":
        """A Fisher matrix that is known, from a publication for instance.

        **Arguments:** `matrix`, symmetric and positive semidefinite; `names`, one for
        each row; `values`, the parameters at which it holds.
        """
        array, known = as_floating("matrix", matrix), tuple(map(str, names))
        array_of("matrix", array, (len(known),) * 2, "a row for each of names")
        if len(set(known)) < len(known):
            raise ValueError(f"names must differ, got {list(known)}")
        center = None if values is None else as_floating("values", values)
        if center is not None:
            array_of("values", center, (len(known),), "one for each of names")
        root, scale = scaled_cholesky_factor(information_rows(array))
        status = RESULTS.successful
        return cls(root, scale, None, status, known, "given", values=center)

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
        if isinstance(other, Fisher):
            return added(self, other)
        if not isinstance(other, list | tuple) and np.ndim(other) == 0:
            return NotImplemented
        return added(self, given_information(self, other))

    def __radd__(self, other: Any) -> "Fisher":
        return self + other

    def __mul__(self, factor: Any) -> "Fisher":
        if isinstance(factor, Fisher):
            raise ValueError("two Fisher matrices add, F1 + F2; they do not multiply")
        return multiplied(self, factor)

    __rmul__ = __mul__

    def __or__(self, other: Any) -> "Fisher":
        if not isinstance(other, Fisher):
            return NotImplemented
        return joined(self, other)

    def fix(self, names: Any) -> "Fisher":
        """The information if the parameters `names` were known exactly.

        A name is that of a parameter, or of a leaf: all its entries. One parameter at
        least stays free.
        """
        return fixed(self, names)

    def marginalize(self, names: Any) -> "Fisher":
        """The information on the other parameters when `names` are free as well.

        The Schur complement, as rows from which what `names` explain is projected out.
        """
        return marginalized(self, names)

    def reparametrize(self, function: Callable, values: PyTree) -> "Fisher":
        r"""The information on other parameters, of which these are a function.

        $$F' = J^T F J, \qquad J = \partial\theta / \partial\phi$$

        ```python
        x = jnp.linspace(0.0, 1.0, 10)
        line, noise = {"a": 3.0, "b": 4.0}, inference.Gaussian(0.1)
        slopes = ds.fisher(lambda m: m["a"] + m["b"] * x, line, noise=noise)

        def old(new):  # the old parameters as a function of the new ones
            return {"a": new["mean"] - new["b"] / 2, "b": new["b"]}

        slopes.reparametrize(old, {"mean": 5.0, "b": 4.0}).correlation  # none
        ```

        **Arguments:** `function`, from the new parameters to all old ones, a dict from
        name to number or a vector in the order of `names`; `values`, the new parameters
        at which to take the derivative, any pytree of numbers.
        """
        return reparametrized(self, function, values)

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
        # Numbers without weight are masked and may be NaN.
        weighs = jnp.any(self.score_rows != 0, axis=1)
        rows = self.score_rows / self.scale
        return self._inverse_times(matmul(rows.T, jnp.where(weighs, delta, 0)))

    def ellipse(
        self, a: str, b: str, probability: float = 0.6827, points: int = 100
    ) -> Float[Array, "point 2"]:
        """The ellipse of two parameters that holds so much of the probability.

        Around `values`, or 0 where they are not known; all others are free.
        """
        pair = np.array([one_name(self.names, name) for name in (a, b)])
        if not 0 < probability < 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}")
        correlated = self.correlation[pair[0], pair[1]]
        angle = jnp.linspace(0, 2 * jnp.pi, points)
        across = jnp.sqrt(jnp.maximum(1 - correlated**2, 0))
        circle = jnp.stack(
            [jnp.cos(angle), correlated * jnp.cos(angle) + across * jnp.sin(angle)]
        )
        reach = float(np.sqrt(-2 * np.log1p(-probability))) * self.stderr[pair]
        center = 0.0 if self.values is None else self.values[pair]
        return center + reach * circle.T

    def corner(self, **options: Any) -> "npt.NDArray[np.object_]":
        """Draw error bars and correlations, as `plots.corner(fisher)`."""
        return pictures().corner(self, **options)

    def to_getdist(self) -> object:
        """The Gaussian as a `getdist.gaussian_mixtures.GaussianND`.

        Needs `pip install getdist` and the `values` around which it lies.
        """
        mixtures = optional_module("getdist.gaussian_mixtures", "to_getdist needs")
        if self.values is None:
            raise ValueError(
                "to_getdist needs the values around which the Gaussian lies; give "
                "Fisher.from_matrix(matrix, names, values=...)"
            )
        names = [re.sub(r"[^0-9A-Za-z_]+", "_", name) for name in self.names]
        covariance = np.asarray(self.covariance)
        return mixtures.GaussianND(
            np.asarray(self.values), covariance, names=names, labels=list(self.names)
        )

    def dali(self) -> Dali:
        """The posterior beyond this ellipse, by second derivatives of the prediction.

        Of the very object that `ds.fisher` returned, and for Gaussian noise that does
        not depend on the model. Costs p² derivatives along two directions.
        """
        experiment = recall(self, "dali")
        return dali(experiment, experiment.parameters.start, self.names)

    def _inverse_times(self, vector: Array) -> Array:
        """F⁻¹ S v; NaN for what no datum determines."""
        found, is_open = solve_information(self.root, vector)
        return jnp.where(is_open, jnp.nan, found) / self.scale

    def degeneracies(self, above: float | int = 10.0) -> tuple[Degeneracy, ...]:
        """Directions `above` times less certain than their parameters alone."""
        return degeneracies(self.root, self.names, float(above))

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


def degeneracies(
    root: Array, names: tuple[str, ...], above: float
) -> tuple[Degeneracy, ...]:
    """Directions of a scaled root `above` times less certain than parameters alone."""
    values, directions, null = map(np.asarray, singular_directions(root))
    with np.errstate(divide="ignore"):
        inflation = np.where(null, np.inf, 1 / values)
    return tuple(
        _degeneracy(names, float(factor), direction)
        for factor, direction in zip(inflation, directions, strict=True)
        if factor >= above
    )


def _degeneracy(
    names: tuple[str, ...], inflation: float, direction: np.ndarray
) -> Degeneracy:
    largest = np.max(np.abs(direction))
    # To six digits: of equals the first, and not the one that rounding favors.
    sizes = np.round(np.abs(direction) / largest, 6)
    order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] >= 0.1]
    sign = np.sign(direction[order[0]])
    weights = tuple(float(sign * direction[i]) for i in order)
    return Degeneracy(inflation, tuple(names[i] for i in order), weights)


def _direction(found: Degeneracy) -> list[Block]:
    pairs = list(zip(found.weights, found.names, strict=True))
    shown = " ".join(f"{weight:+.2f} {name}" for weight, name in pairs[:6])
    return [shown + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")]
