"""`fisher`: what an experiment can tell about the parameters of a model."""

import functools
from typing import Any, Literal, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from .._jit._fresh_jit import reading
from .._linalg import matmul
from .._types import PyTree
from .._validation import is_traced
from ._argument_order import explain_swapped
from ._fisher_information import Fisher
from ._fisher_operator import FisherOperator
from ._fit import warn_of_single_precision
from ._fit_diagnostics import at_finer_steps
from ._fit_options import check_count
from ._information import expected_information, observed_information
from ._posterior import (
    Posterior,
    explain_derivatives,
    likelihoods_of,
    posterior,
)
from ._remembered import remember
from ._sampled_information import sampled_information


#: Parameters from which a matrix is not made: it takes 0.8 GB, and its factor and its
#: eigenvectors as much each.
MOST_DENSE = 10_000


@overload
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
    dense: Literal[True] = True,
) -> Fisher: ...


@overload
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
    dense: Literal[False],
) -> FisherOperator: ...


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
    dense: bool = True,
) -> Fisher | FisherOperator:
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
    - `dense`: whether to make the matrix. False is for fields of thousands of cells:
        nothing runs until `mv` or `modes` of the `FisherOperator` is called.

    **Returns:** a `Fisher`, or a `FisherOperator` if not `dense`.

    **Raises:** `ValueError` for wrong paths, shapes, NaN data, an unknown sigma without
    data, an observed information that is not positive definite, and a matrix of 10⁴
    parameters or more.

    **Limits:** rows are kept, so memory is data × parameters (convenience: of an
    operator they are not); it cannot see errors of the integration unless asked to: use
    tolerances of 1e-8 or so, or `error_estimate=True` (mathematics).
    """
    warn_of_single_precision("fisher", model, data)
    if kind not in ("expected", "observed", "sampled"):
        raise ValueError(
            f"kind must be 'expected', 'observed' or 'sampled', got {kind!r}"
        )
    check_count("samples", samples)
    order = "fisher(predict, model, data=data)"
    with explain_swapped(predict, model, data, order=order):
        found = posterior(predict, model, data, noise=noise, free=free, priors=priors)
        if not dense:
            return _fisher_operator(found, kind, error_estimate)
        _check_size(found)
        with reading(found), _with_explained_errors(found, kind):
            information = _fisher_matrix(found, kind, error_estimate, samples, seed)
    remember(information, found)
    return information


def _fisher_operator(
    found: Posterior, kind: str, error_estimate: bool
) -> FisherOperator:
    _check_data(found, kind)
    if error_estimate:
        raise ValueError(
            "error_estimate=True takes dense=True: it compares two matrices; compare "
            "the modes at two steps or tolerances instead"
        )
    if kind == "sampled" or (kind == "expected" and _lacks_formula(found)):
        raise ValueError(
            "dense=False takes an information with a formula, and this one would be "
            "sampled; take kind='observed' with data, or dense=True"
        )
    if kind == "expected" and _has_joint_prior(found):
        raise ValueError(
            "dense=False takes priors of single entries or Gaussian ones, and the "
            "information of one on several together is a matrix; take kind='observed' "
            "with data"
        )
    return FisherOperator(found, kind)


def _has_joint_prior(found: Posterior) -> bool:
    """Whether the rows of priors are made of a matrix."""
    values = found.parameters.start
    prior = functools.partial(found.parameters.prior, expected=True)
    return jax.eval_shape(prior, values).joint is not None


def _check_size(found: Posterior):
    """Refuse what would take the memory of the machine, before anything runs."""
    size = len(found.parameters.names)
    if size >= MOST_DENSE:
        gigabytes = size**2 * found.parameters.start.dtype.itemsize / 1e9
        raise ValueError(
            f"free: the Fisher matrix of {size} parameters would take {gigabytes:.1f} "
            "GB, and as much again for each step on the way to error bars; take "
            "fisher(..., dense=False).modes(k), the directions that data tell most of"
        )


def _with_explained_errors(found: Posterior, kind: str):
    """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
    forward, reverse = "write its derivative as jax.custom_jvp", UNROLL
    if kind == "observed":
        reverse = f"take kind='expected', or {UNROLL}"
    else:
        forward += (
            ", or take kind='observed' with data=, where its rule has forward mode"
        )
    return explain_derivatives(
        found,
        forward=f"{REVERSE_ONLY}; {forward}",
        reverse=f"{FORWARD_ONLY}; {reverse}",
    )


def _fisher_matrix(
    found: Posterior, kind: str, error_estimate: bool, samples: int, seed: int
) -> Fisher:
    _check_data(found, kind)
    values = found.parameters.start
    if kind == "sampled" or (kind == "expected" and _lacks_formula(found)):
        if error_estimate or found.scale_is_unknown:
            given = "error_estimate" if error_estimate else "noise=Gaussian()"
            raise ValueError(
                f"{given} cannot be combined with an information that is sampled; take "
                "kind='expected' or 'observed'"
            )
        return sampled_information(found, values, samples, seed)
    inform = observed_information if kind == "observed" else expected_information
    information, at = inform(found, values)
    if not error_estimate:
        return information
    return _with_refinement(information, at, at_finer_steps(inform, found, values))


def _lacks_formula(found: Posterior) -> bool:
    """Whether the expected information has to be sampled, if it can be."""
    sets = likelihoods_of(found)
    for one, varies in zip(sets.likelihoods, sets.varies, strict=True):
        if one.has_information(0, varies):
            continue
        if not one.can_draw:
            raise ValueError(
                "the expected information of a likelihood of your own needs "
                "information(prediction) or sample(key, prediction) beside log_prob; "
                "without them take kind='observed' with data"
            )
        return True
    return False


def _check_data(found: Posterior, kind: str):
    """Refuse to go on without data where they are needed, or with too few."""
    if found.data is None and (kind == "observed" or found.scale_is_unknown):
        needs = "kind='observed'" if kind == "observed" else "a Gaussian without sigma"
        raise ValueError(f"data must be given: {needs} cannot do without")
    if found.scale_is_unknown:
        _check_enough_data(found)


def _check_enough_data(found: Posterior):
    """An unknown sigma is judged from what the parameters leave of the data."""
    if found.data is None:
        return
    (likelihood,), number = (
        likelihoods_of(found).likelihoods,
        len(found.parameters.names),
    )
    masks = jax.tree.leaves(likelihood.mask)
    if any(map(is_traced, masks)):
        return
    size = int(sum(map(np.sum, masks))) if masks else found.data[0].size
    if size <= number:
        raise ValueError(
            "noise=Gaussian() estimates sigma from residuals, which takes more data "
            f"than parameters, got {size} for {number}; give it, Gaussian(sigma)"
        )


def _with_refinement(information: Fisher, at: Array, finer: Any) -> Fisher:
    """The information with what finer steps make of it, if there are any.

    `at` is the prediction where the information is the expected one, and the gradient
    of the loss where it is observed; `finer` the same two by finer steps.
    """
    if finer is None:
        unknown = jnp.full_like(information.root, jnp.nan)
        refined = eqx.tree_at(lambda f: f.root, information, unknown)
        return information.with_refinement(refined, unknown[0])
    refined, other = finer
    change = at - other
    if information.score_rows is not None:
        change = matmul(information.score_rows.T, change)
    return information.with_refinement(refined, change)
