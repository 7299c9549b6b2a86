"""`fisher`, `fisher_operator`: what an experiment can tell about a model."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from ..._jit._fresh_jit import reading
from ..._linalg import matmul
from ..._types import PyTree
from ..._validation import count, is_traced, one_of
from .._fit_diagnosis import explain_swapped
from .._posterior import (
    Posterior,
    at_finer_steps,
    explain_derivatives,
    likelihoods_of,
    posterior,
    remember,
    warn_of_single_precision,
)
from ._fisher_information import Fisher
from ._fisher_operator import FisherOperator
from ._information import (
    expected_information,
    observed_information,
    sampled_information,
)


#: Parameters from which a matrix is not made: it takes 0.8 GB, and its factor and its
#: eigenvectors as much each.
MOST_DENSE = 10_000


def fisher(
    predict: Any,
    model: PyTree,
    *,
    noise: Any,
    free: Any = None,
    kind: str = "expected",
    data: PyTree = None,
    error_estimate: bool = False,
    priors: Any = (),
    samples: int = 4096,
    seed: int = 0,
) -> Fisher:
    r"""The Fisher information of an experiment at `model`, before or after the data.

    $$F_{ab} = \partial_a\mu^T C^{-1}\,\partial_b\mu
        + \tfrac12\,\mathrm{tr}\,(C^{-1}\partial_a C\,C^{-1}\partial_b C)$$

    plus 1/σ² of every Gaussian prior. It comes from a forward-mode Jacobian, whitened
    and factorized by QR; FᵀF-like products are never formed.

    ```python
    t = np.arange(100) / 10  # ten whole periods

    def wave(model):
        return model["a"] * jnp.sin(2 * np.pi * t + model["phase"])

    noise = inference.Gaussian(0.1)
    forecast = ds.fisher(wave, {"a": 2.0, "phase": 0.3}, noise=noise)
    forecast.stderr  # σ√(2/N) = 0.0141, and 1/a of it for the phase
    ```

    **Arguments**

    - `predict`: any JAX function of the model; returns a pytree of arrays, or a
        `Trajectory`, of which the states count. A simulation that fails inside makes
        NaN and a `status`, not an exception.
    - `model`: a pytree; where to evaluate.
    - `noise`: a likelihood, such as a `Gaussian` with a sigma, or a function from the
        model to one, or a dict of them, as in `fit`.
    - `free`: which numbers vary: None for what the simulation declares (a bare pytree:
        every float, and no leaf may be an integer), a path, several, a function from
        the model to nodes, or a dict from path to `Free`. Of `Free` only priors matter
        here: error bars are those of the parameters themselves, whatever their
        transform.
    - `kind`: "expected" is the formula above, or that of the likelihood which is given.
        "observed" is minus the second derivative of the log posterior on real `data`;
        they differ by noise, and by model error. "sampled" is the covariance of the
        score over data drawn from the likelihood: right for any that can draw, and
        uncertain by `Fisher.sampling_error`. It also serves where "expected" is asked
        of a likelihood with `sample` and without a formula.
    - `data`: needed for "observed", and by `Gaussian()` to judge the size of the noise.
    - `error_estimate`: whether to repeat it all with half the step, or a tenth of the
        tolerance, of the simulations inside `predict`. `Fisher.error_estimate` and
        `Fisher.solver_error` then tell by how much error bars and best values change,
        and so does the printed summary. The finer runs come on top: twice the
        steps where they are fixed, 1.3 to 1.8 times as many by a tolerance.

    - `priors`: a list of `Prior`, on functions of the model.
    - `samples`, `seed`: how many data sets are drawn for "sampled", and by which key.

    **Returns:** a `Fisher`. For fields of thousands of cells `fisher_operator` makes no
    matrix.

    **Raises:** `ValueError` for wrong paths, shapes, NaN data, an unknown sigma without
    data, an observed information that is not positive definite, and a matrix of 10⁴
    parameters or more.

    **Limits:** rows are kept, so memory is data × parameters (convenience:
    `fisher_operator` keeps none); it cannot see errors of the integration unless asked
    to: use tolerances of 1e-8 or so, or `error_estimate=True` (mathematics).
    """
    warn_of_single_precision("fisher", model, data)
    one_of("kind", kind, ("expected", "observed", "sampled"))
    count("samples", samples)
    try:
        experiment = posterior(
            predict, model, data, noise=noise, free=free, priors=priors
        )
        size = len(experiment.parameters.names)
        if size >= MOST_DENSE:
            bytes_ = size**2 * experiment.parameters.start.dtype.itemsize
            raise ValueError(
                f"free: the Fisher matrix of {size} parameters would take "
                f"{bytes_ / 1e9:.1f} GB, and as much again for each step on the way to "
                "error bars; take fisher_operator(...).modes(k), the directions that "
                "data tell most of"
            )
        forward, reverse = "write its derivative as jax.custom_jvp", UNROLL
        if kind == "observed":
            reverse = f"take kind='expected', or {UNROLL}"
        else:
            forward += ", or take kind='observed' with data=, by reverse mode"
        explained = explain_derivatives(
            experiment,
            forward=f"{REVERSE_ONLY}; {forward}",
            reverse=f"{FORWARD_ONLY}; {reverse}",
        )
        with reading(experiment), explained:
            information = _fisher_matrix(
                experiment, kind, error_estimate, samples, seed
            )
    except Exception as error:
        order = "fisher(predict, model, data=data)"
        explain_swapped(error, predict, model, data, order)
        raise
    remember(information, experiment)
    return information


def fisher_operator(
    predict: Any,
    model: PyTree,
    *,
    noise: Any,
    free: Any = None,
    kind: str = "expected",
    data: PyTree = None,
    priors: Any = (),
) -> FisherOperator:
    """The Fisher information as a linear operator, for thousands of parameters.

    ```python
    def readings(white):  # of a smooth curve, every tenth point of it
        return jnp.cumsum(white)[::10]

    how = {"noise": inference.Gaussian(0.1), "free": {"[:]": ds.Free(prior=(0.0, 1.0))}}
    operator = ds.fisher_operator(readings, jnp.zeros(100), **how)
    operator.modes(3).eigenvalues
    ```

    No matrix is made, and nothing runs until `mv` or `modes` of the operator is called.

    **Arguments** are those of `fisher`

    - `predict`, `model`, `noise`, `free`, `data`, `priors`: the experiment.
    - `kind`: "expected" or "observed".

    **Returns:** a `FisherOperator`.

    **Raises:** `ValueError` as `fisher` does, and where the information has no formula
    or that of the priors is a matrix.
    """
    warn_of_single_precision("fisher_operator", model, data)
    one_of("kind", kind, ("expected", "observed"))
    try:
        experiment = posterior(
            predict, model, data, noise=noise, free=free, priors=priors
        )
        _check_data(experiment, kind)
        if kind == "expected":
            _check_operator(experiment)
    except Exception as error:
        order = "fisher_operator(predict, model, data=data)"
        explain_swapped(error, predict, model, data, order)
        raise
    return FisherOperator(experiment, kind)


def _check_operator(experiment: Posterior):
    if _lacks_formula(experiment):
        raise ValueError(
            "fisher_operator takes an information with a formula, and this one would "
            "be sampled; take kind='observed' with data, or fisher"
        )
    prior = functools.partial(experiment.parameters.prior, expected=True)
    if jax.eval_shape(prior, experiment.parameters.start).joint is not None:
        raise ValueError(
            "fisher_operator takes priors of single entries or Gaussian ones, and the "
            "information of one on several together is a matrix; take kind='observed' "
            "with data"
        )


def _fisher_matrix(
    experiment: Posterior, kind: str, error_estimate: bool, samples: int, seed: int
) -> Fisher:
    _check_data(experiment, kind)
    values = experiment.parameters.start
    if kind == "sampled" or (kind == "expected" and _lacks_formula(experiment)):
        if error_estimate or experiment.scale_is_unknown:
            argument = "error_estimate" if error_estimate else "noise=Gaussian()"
            raise ValueError(
                f"{argument} cannot be combined with an information that is sampled; "
                "take kind='expected' or 'observed'"
            )
        return sampled_information(experiment, values, samples, seed)
    inform = observed_information if kind == "observed" else expected_information
    # Beside the information the prediction, or of an observed one the gradient.
    information, before = inform(experiment, values)
    if not error_estimate:
        return information
    finer = at_finer_steps(inform, experiment, values)
    if finer is None:
        unknown = jnp.full_like(information.root, jnp.nan)
        refined = eqx.tree_at(lambda f: f.root, information, unknown)
        return information.with_refinement(refined, unknown[0])
    refined, after = finer
    change = before - after
    if information.score_rows is not None:
        change = matmul(information.score_rows.T, change)
    return information.with_refinement(refined, change)


def _lacks_formula(experiment: Posterior) -> bool:
    """Whether the expected information has to be sampled, if it can be."""
    sets = likelihoods_of(experiment)
    for likelihood, varies in zip(sets.likelihoods, sets.varies, strict=True):
        if likelihood.has_information(0, varies):
            continue
        if not likelihood.can_draw:
            raise ValueError(
                "the expected information of a likelihood of your own needs "
                "information(prediction) or sample(key, prediction) beside log_prob; "
                "without them take kind='observed' with data"
            )
        return True
    return False


def _check_data(experiment: Posterior, kind: str):
    """Refuse to go on without data where they are needed, or with too few."""
    data, unknown = experiment.data, experiment.scale_is_unknown
    if data is None and (kind == "observed" or unknown):
        needs = "kind='observed'" if kind == "observed" else "a Gaussian without sigma"
        raise ValueError(f"data must be given: {needs} cannot do without")
    if data is None or not unknown:
        return
    # An unknown sigma is judged from what the parameters leave of the data.
    masks = jax.tree.leaves(likelihoods_of(experiment).likelihoods[0].mask)
    if any(map(is_traced, masks)):
        return
    size = int(sum(map(np.sum, masks))) if masks else data[0].size
    if size <= (number := len(experiment.parameters.names)):
        raise ValueError(
            "noise=Gaussian() estimates sigma from residuals, which takes more data "
            f"than parameters, got {size} for {number}; give it, Gaussian(sigma)"
        )
