"""`Fit`: best values, error bars and how they were found."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from .._extras import pictures
from .._jit._fresh_jit import fresh_jit, reading
from .._linalg import matmul
from .._results import RESULTS
from .._text_table import html_representation, text_representation
from .._types import PyTree
from .._validation import function_of, is_traced
from ..simulations import load, save
from ._fisher import Fisher, observed_information
from ._posterior import Compared, Posterior, likelihoods_of, recall
from ._profile import Contour, Profile, contour, profile
from ._report import flags_of, report
from ._result_tables import fit_dataframe, fit_dataset, fit_dict


if TYPE_CHECKING:
    import matplotlib.axes
    import numpy as np
    import numpy.typing as npt
    import pandas
    import xarray


class LocalOptimum(eqx.Module):
    """An optimum of a fit from several starts.

    ```python
    t = jnp.linspace(0.0, 10.0, 60)

    def wave(m):
        return jnp.sin(m["frequency"] * t)

    start, noise = {"frequency": 1.6}, inference.Gaussian(0.1)
    fit = ds.fit(wave, start, jnp.sin(2.0 * t), noise=noise, starts=8)
    fit.optima[0].loss  # of the best of them, an inference.LocalOptimum
    ```

    **Fields:** `loss`; `values`, in the order of the names of the fit; `count`, how
    many starts have ended there.
    """

    loss: Float[Array, ""]
    values: Float[Array, " parameter"]
    count: int = eqx.field(static=True)


class FittedData(eqx.Module):
    """Data, what the best fit expects of them, and what is left.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    counts = jax.random.poisson(jax.random.key(0), 50 * jnp.exp(-0.7 * t))
    start = {"height": 40.0, "rate": 1.0}
    fit = ds.fit(decay, start, counts, noise=inference.Poisson())
    (one,) = fit.fitted_data()  # an inference.FittedData
    one.residuals.std()  # near 1
    ```

    **Fields**, each a pytree like the data, but `name`

    - `data`: as given.
    - `expected`, `stderr`: mean (of log-normal data the median) and standard deviation
        of each datum by the best fit; 0 where a likelihood does not say the latter.
    - `residuals`: (data − expected) in standard deviations, of correlated data
        whitened; 0 where masked.
    - `used`: False where masked.
    - `name`: "data", or the part of them.
    """

    data: PyTree[Float[Array, "..."]]
    expected: PyTree[Float[Array, "..."]]
    stderr: PyTree[Float[Array, "..."]]
    residuals: PyTree[Float[Array, "..."]]
    used: PyTree[Bool[Array, "..."]]
    name: str = eqx.field(static=True)


class Propagated(eqx.Module):
    r"""A function f of the model of a fit, with its error bar to first order.

    $$\mathrm{cov}\,f = f'\, C\, f'^T$$

    ```python
    t = jnp.linspace(0.0, 10.0, 50)

    def wave(m):
        return m["sine"] * jnp.sin(2 * t) + m["cosine"] * jnp.cos(2 * t)

    start, noise = {"sine": 1.0, "cosine": 1.0}, inference.Gaussian(0.1)
    fit = ds.fit(wave, start, 2 * jnp.sin(2 * t + 0.3), noise=noise)
    size = fit.propagate(lambda m: jnp.hypot(m["sine"], m["cosine"]))
    print(size)  # an inference.Propagated: 2 ± 0.02
    ```

    **Fields:** `value`, what the function returns of the best model; `stderr`, a pytree
    like it; `covariance`, of all its numbers in order.
    """

    value: PyTree[Any]
    stderr: PyTree[Any]
    covariance: Float[Array, "output output"]

    def __repr__(self) -> str:
        values = jax.tree.leaves(self.value)
        errors = jax.tree.leaves(self.stderr)
        if len(values) == 1 and jnp.ndim(values[0]) == 0:
            return f"{float(values[0]):.6g} ± {float(errors[0]):.2g}"
        return "\n".join(
            f"{jax.tree_util.keystr(path).lstrip('.') or 'value'} = {value} ± {error}"
            for (path, value), error in zip(
                jax.tree_util.tree_flatten_with_path(self.value)[0], errors, strict=True
            )
        )


class Fit(eqx.Module):
    """The outcome of `fit`; `print(fit)` is the report.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)
    scatter = 0.05 * jax.random.normal(jax.random.key(0), t.shape)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    data = decay({"height": 2.0, "rate": 0.7}) + scatter
    start, noise = {"height": 1.0, "rate": 1.0}, inference.Gaussian(0.05)
    fit = ds.fit(decay, start, data, noise=noise)  # an inference.Fit
    fit.model["rate"], fit.stderr, fit.chi2 / fit.dof
    ```

    **Fields**, vectors in the order of `names`

    - `model`: the model with the best values; `values`, `start`, `lower`, `upper`,
        `at_bound`: the free parameters, where they started, their bounds, and which
        ended at one, or where a transform or a prediction ends, as a mean at 0.
        `circular`: positions of those on a circle, whose bounds are those of a turn.
    - `stderr`, `covariance`, `correlation`: standard deviations; inf for what the data
        leave open, NaN at a bound, where the others' hold with it fixed.
    - `undetermined`: which ones the data leave open: their error bar is infinite, or it
        reaches over a plateau where the loss no longer rises.
    - `fisher`: the information behind them (no bound taken into account), a
        `Fisher`; None with `FitOptions(covariance=False)`.
    - `chi2`: of the data, without priors; the residual sum of squares if sigma is
        unknown. `size`: number of data. `dof`: data minus the k parameters fitted:
        those in `names`, of the noise as well, less those at a bound.
    - `loss`: minus the log posterior up to a constant, at `values`.
    - `sigma_scale`: √(RSS/dof) where sigma was unknown (NaN if no datum is left to tell
        it), else 1. `convention` says it.
    - `aic`, `bic`: −2 ln L + 2k and −2 ln L + k ln N from the full likelihood, with
        the k of `dof`. The sigma of `Gaussian()` is none of them, as in NIST and lmfit:
        compare fits of one kind of noise.
    - `log_prob`: ln L of the data at `values`, with all constants; of an unknown sigma
        at its most likely value, −N/2 (ln 2πRSS/N + 1).
    - `culprit`: where the prediction at the start is not finite, the first such leaf
        and time; else empty.
    - `judges_misfit`: whether the reduced χ² of a good fit is near 1.
    - `status`: a `RESULTS`; `RESULTS[fit.status]` is empty or says what to try.
    - `remaining_sigma`: how far a further Gauss-Newton step would move, in units of
        `stderr` along its direction, so that no value moves by more of its own.
    - `solver_error`: how far finer steps of the simulations inside `predict` (half the
        step, a tenth of the tolerances) would move each best value, in units of its
        standard deviation; NaN where there are none.
    - `steps`, `rejected`, `non_finite`: numbers of trial steps.
    - `tied_names`, `tied_values`, `tied_stderr`: parameters that follow others.
    - `units`: the labels that `Free(unit=...)` gave.
    - `history`: arrays over steps, `loss`, `remaining_sigma`, `gradient_norm`,
        `seconds`; after many
        starts `starts_loss`, `starts_values`, `starts_converged`, best first.

    `observed`, `profile`, `contour`, `fitted_data` and `propagate` call `predict` as it
    is then: if it reads what has changed since the fit, they are of another prediction.
    """

    model: PyTree
    values: Float[Array, " parameter"]
    stderr: Float[Array, " parameter"]
    covariance: Float[Array, "parameter parameter"]
    correlation: Float[Array, "parameter parameter"]
    fisher: Fisher | None
    start: Float[Array, " parameter"]
    lower: Float[Array, " parameter"]
    upper: Float[Array, " parameter"]
    at_bound: Bool[Array, " parameter"]
    undetermined: Bool[Array, " parameter"]
    chi2: Float[Array, ""]
    dof: Int[Array, ""]
    size: Int[Array, ""]
    loss: Float[Array, ""]
    sigma_scale: Float[Array, ""]
    log_prob: Float[Array, ""]
    aic: Float[Array, ""]
    bic: Float[Array, ""]
    status: RESULTS
    remaining_sigma: Float[Array, ""]
    solver_error: Float[Array, " parameter"]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    non_finite: Int[Array, ""]
    history: dict[str, Any]
    tied_values: Float[Array, " tied"]
    tied_stderr: Float[Array, " tied"]
    names: tuple[str, ...] = eqx.field(static=True)
    tied_names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str | None, ...] = eqx.field(static=True)
    convention: str = eqx.field(static=True)
    judges_misfit: bool = eqx.field(static=True)
    circular: tuple[int, ...] = eqx.field(static=True)
    culprit: str = eqx.field(static=True, default="")

    @property
    def chi2_reduced(self) -> Float[Array, ""]:
        """χ² per degree of freedom; near 1 in a good fit only by a sigma that is given.

        A sigma that is fitted or judged from the residuals makes it 1, or its square.
        NaN where no degree of freedom is left.
        """
        return jnp.where(self.dof > 0, self.chi2 / self.dof, jnp.nan)

    @property
    def flags(self) -> dict[str, str]:
        """Warnings about the error bars, a clause by keyword; often empty.

        `"undetermined"`: the data do not determine these; `"solver_error"`: the
        simulation's own error takes more than 0.3 of an error bar; `"at_bound"`;
        `"misfit"`: the reduced chi2 by a given sigma is not near 1; `"no_effect"`: the
        prediction does not depend on these; `"degenerate"`: pairs that the data hardly
        tell from each other.

        **Raises:** `ValueError` for a fit that is traced, or one of a batch of fits.
        """
        if is_traced(self.chi2) or self.chi2.ndim:
            raise ValueError(
                "flags are those of one fit outside jit, vmap and grad; take the "
                "arrays (.status, .undetermined, .solver_error) inside, and one of a "
                "batch by jax.tree.map(lambda x: x[0], fits)"
            )
        return flags_of(self)

    def observed(self) -> Fisher:
        """The observed information at the best fit: the full second derivative.

        Its `stderr` differ from those of the fit where residuals are large and the
        prediction is not linear within its error bars.
        """
        experiment = recall(self, "observed")
        return observed_information(experiment, self.values)[0]

    def profile(self, name: str, level: float | int = 1.0) -> Profile:
        """The profile likelihood of a parameter: an asymmetric interval of n sigma.

        All others are fitted anew along it. Nothing is compiled that the fit has not
        compiled; about ten short fits.
        """
        experiment = recall(self, "profile")
        with reading(experiment):
            return profile(self, experiment, name, float(level))

    def contour(
        self, a: str, b: str, probability: float = 0.6827, points: int = 40
    ) -> Contour:
        """The contour of two parameters that holds so much of the probability."""
        experiment = recall(self, "contour")
        with reading(experiment):
            return contour(self, experiment, (a, b), probability, points)

    def fitted_data(self) -> tuple[FittedData, ...]:
        """Data beside what the best fit expects of them, one for each data set."""
        experiment = recall(self, "fitted_data")
        assert experiment.data is not None and experiment.layouts is not None
        comparisons = _compared(experiment, self.values).comparisons
        names = likelihoods_of(experiment).labels()
        every = []
        for i, comparison in enumerate(comparisons):
            data, used = experiment.data[i], comparison.used
            mean, spread = comparison.moments()
            as_given = experiment.layouts[i].unflatten
            every.append(
                FittedData(
                    data=as_given(data),
                    expected=as_given(mean),
                    stderr=as_given(spread),
                    residuals=as_given(-comparison.residuals()),
                    used=as_given(jnp.ones(data.shape, bool) if used is None else used),
                    name=names[i],
                )
            )
        return tuple(every)

    def propagate(self, function: Callable[[PyTree], PyTree]) -> Propagated:
        """A function of the model with its error bar, to first order.

        `fit.propagate(lambda m: jnp.hypot(m["h"], m["k"]))` has the eccentricity with
        its error bar.
        """
        experiment = recall(self, "propagate")
        function_of("function", function, ("model",))
        value, jacobian = _derivative(function, experiment.parameters, self.values)
        # A parameter that the function does not depend on may be undetermined, and what
        # a bound holds does not vary.
        matters = jnp.any(jacobian != 0, axis=0) & ~self.at_bound
        both = matters[:, None] & matters[None, :]
        given = jnp.where(both, self.covariance, 0)
        covariance = matmul(matmul(jacobian, given), jacobian.T)
        _, unravel = ravel_pytree(value)
        stderr = unravel(jnp.sqrt(jnp.diagonal(covariance)))
        return Propagated(value, stderr, covariance)

    @property
    def optima(self) -> tuple[LocalOptimum, ...]:
        """The distinct optima that the starts of `fit(..., starts=k)` found."""
        history = self.history
        if "starts_loss" not in history:
            return (LocalOptimum(self.loss, self.values, 1),)
        losses = np.asarray(history["starts_loss"])
        values = np.asarray(history["starts_values"])
        reach = _NEAR * np.nan_to_num(np.asarray(self.stderr), posinf=0.0)
        turn = np.asarray(self.upper - self.lower)
        on_circle = np.isin(np.arange(turn.size), self.circular)
        optima: list[tuple[int, int]] = []
        for i in np.flatnonzero(np.asarray(history["starts_converged"])):
            for k, (first, count) in enumerate(optima):
                size = _RELATIVE * np.maximum(np.abs(values[first]), np.abs(values[i]))
                apart = np.abs(values[i] - values[first])
                apart = np.minimum(apart, np.where(on_circle, turn - apart, apart))
                if np.all(apart <= np.maximum(reach, size)):
                    optima[k] = first, count + 1
                    break
            else:
                optima.append((int(i), 1))
        return tuple(
            LocalOptimum(history["starts_loss"][i], history["starts_values"][i], count)
            for i, count in optima
            if np.isfinite(losses[i])
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists of Python, for JSON."""
        return fit_dict(self)

    def save(self, path: Any):
        """Write the fit to a file, which `Fit.load` reads."""
        save(path, {"fit": self})

    @staticmethod
    def load(path: Any) -> "Fit":
        """Read a fit; `profile` and the like need the one that `ds.fit` returned."""
        content = load(path)
        if not isinstance(content, dict) or not isinstance(content.get("fit"), Fit):
            raise ValueError(f"{str(path)!r} holds no fit that Fit.save has written")
        return content["fit"]

    def plot(self, x: Any = None, *, ax: Any = None) -> "matplotlib.axes.Axes":
        """Draw data, the best fit and the residuals below.

        **Arguments:** `x`, where the data lie, as times; None numbers them.
        """
        return pictures().fit(self, x, ax=ax)

    def corner(self, **options: Any) -> "npt.NDArray[np.object_]":
        """Draw error bars and correlations, as `plots.corner(fit)`."""
        return pictures().corner(self, **options)

    def to_dataframe(self) -> "pandas.DataFrame":
        """The parameters as a `pandas.DataFrame`, a row for each.

        Columns are `value`, `stderr`, `start`, `lower`, `upper`, `at_bound`,
        `undetermined` and `solver_error`.
        """
        return fit_dataframe(self)

    def to_xarray(self) -> "xarray.Dataset":
        """The same as an `xarray.Dataset`, with covariance and correlation.

        Along `parameter` and `other_parameter`; χ² and the like are attributes.
        """
        return fit_dataset(self)

    def __repr__(self) -> str:
        return text_representation(self, report)

    def _repr_html_(self) -> str:
        return html_representation(self, report)


#: Starts that end so near are at one optimum: in error bars, or of the values.
_NEAR, _RELATIVE = 0.1, 1e-3


@fresh_jit
def _compared(experiment: Posterior, values: Array) -> Compared:
    return experiment.compared(values)


@fresh_jit
def _derivative(function: Callable[[PyTree], PyTree], parameters: Any, values: Array):
    def flat(x: Array) -> Array:
        return ravel_pytree(function(parameters.model(x)))[0].astype(x.dtype)

    value = jax.tree.map(jnp.asarray, function(parameters.model(values)))
    return value, jax.jacfwd(flat)(values)
